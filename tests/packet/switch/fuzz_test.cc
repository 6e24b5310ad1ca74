// SPDX-License-Identifier: Apache-2.0
// A million mutated packets from a fixed seed: the program never aborts, never changes a length, and
// every packet moves a counter. Bounded to kBudget on a slow machine; the count is then reported.
#include <linux/bpf.h>

#include <chrono>
#include <random>

#include "packet_kinds.h"
#include "switch_program.h"

namespace spillway::switching {
namespace {

constexpr int kPackets = 1'000'000;
constexpr auto kBudget = std::chrono::seconds(30);

class FuzzTest : public SwitchTest {};

void Mutate(Bytes& packet, std::mt19937_64& random) {
  auto headers = [&] { return random() % std::min<size_t>(packet.size(), 90); };
  int changes = static_cast<int>(random() % 4);
  for (int i = 0; i < changes; i++) {
    switch (random() % 6) {
      case 0:
        packet[headers()] = static_cast<uint8_t>(random());
        break;
      case 1:
        packet[headers()] ^= static_cast<uint8_t>(1 << random() % 8);
        break;
      case 2: {  // edge values, which lengths and offsets stumble over
        const uint8_t edges[] = {0, 1, 4, 5, 6, 15, 17, 44, 58, 60, 0x7f, 0x80, 0xff};
        packet[headers()] = edges[random() % sizeof(edges)];
        break;
      }
      case 3:
        packet.resize(std::max<size_t>(14, random() % (packet.size() + 1)));
        break;
      case 4:
        packet.resize(packet.size() + random() % 64, static_cast<uint8_t>(random()));
        break;
      case 5: {  // a piece of the packet over another
        size_t from = random() % packet.size(), to = headers(), count = random() % 20;
        for (size_t b = 0; b < count && from + b < packet.size() && to + b < packet.size(); b++)
          packet[to + b] = packet[from + b];
        break;
      }
    }
  }
}

TEST_F(FuzzTest, AMillionMutatedPacketsAreSurvived) {
  std::mt19937_64 random(80);
  auto kinds = PacketKinds();
  auto end = std::chrono::steady_clock::now() + kBudget;
  std::map<int, int> verdicts;
  int done = 0;
  for (; done < kPackets; done++) {
    if (done % 1024 == 0 && std::chrono::steady_clock::now() > end) break;
    Bytes packet = kinds[random() % kinds.size()].second;
    Mutate(packet, random);
    Outcome out = Run(packet);
    ASSERT_NE(out.verdict, -1) << "refused by the kernel at " << done;
    ASSERT_NE(out.verdict, XDP_ABORTED) << done;
    ASSERT_LE(out.verdict, XDP_REDIRECT) << done;
    ASSERT_EQ(out.bytes.size(), packet.size()) << done;
    verdicts[out.verdict]++;
  }
  RecordProperty("packets", done);
  EXPECT_GT(done, 10'000);
  EXPECT_GT(verdicts[XDP_TX], done / 20) << "most mutants must still reach the deep paths";
  EXPECT_GT(verdicts[XDP_DROP], done / 20);
  EXPECT_GT(verdicts[XDP_PASS], done / 20);
  uint64_t accounted = 0;
  for (const auto& [name, count] : Counted()) {
    // One of these for every packet: the other counters say more about some of them.
    if (name.starts_with("packets_") || name.starts_with("dropped_") || name.starts_with("reports_") ||
        name == "icmp_forwarded" || name == "passed_unknown_port") {
      accounted += count;
    }
  }
  EXPECT_EQ(accounted, static_cast<uint64_t>(done)) << "every packet under exactly one verdict's name";
}

TEST_F(FuzzTest, PureNoiseIsSurvived) {
  std::mt19937_64 random(81);
  for (int i = 0; i < 50'000; i++) {
    Bytes packet(14 + random() % 120);
    for (auto& b : packet) b = static_cast<uint8_t>(random());
    packet[12] = i % 2 ? 0x08 : 0x86;
    packet[13] = i % 2 ? 0x00 : 0xdd;
    Outcome out = Run(packet);
    ASSERT_TRUE(out.verdict == XDP_PASS || out.verdict == XDP_DROP) << i;
    ASSERT_EQ(out.bytes.size(), packet.size());
  }
}

}  // namespace
}  // namespace spillway::switching

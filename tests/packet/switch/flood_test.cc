// SPDX-License-Identifier: Apache-2.0
// The guarantee of docs/flood.md: no established flow moves, and new TCP flows
// connect as with a stateless ring. Each kind of flood, ten times the flow table, that of SYNs ten times the
// half-open table, beside connections that open while it lasts, live ones and idle ones.
#include <linux/bpf.h>

#include <cstdlib>
#include <deque>
#include <random>
#include <vector>

#include "switch_program.h"

namespace spillway::switching {
namespace {

enum class Kind { kSyns, kHandshakes, kDatagrams, kAcks, kFins, kRsts };

struct FloodedFlow {
  uint16_t port = 0;
  uint32_t isn = 0;
  uint16_t unit = SPW_NO_UNIT;
  uint32_t due = 0;  // packet of the flood before which its ACK comes
};

class FloodTest : public SwitchTest, public testing::WithParamInterface<Kind> {
 protected:
  FloodTest() : SwitchTest(SwitchProgram::AtStandingClock()) {}
  void SetUp() override {
    SwitchTest::SetUp();
    Advance(10'000'000'000);                                  // what other tests inserted is of another tick
    const char* given = std::getenv("SPILLWAY_FLOOD_TIMES");  // fewer where the processor is emulated
    const uint32_t entries = program_.flow_buckets() * SPW_BUCKET_ENTRIES;
    constexpr uint32_t kHandshakes = SPW_HALF_OPEN_BUCKETS * SPW_HALF_OPEN_WAYS;
    packets_ = static_cast<uint32_t>(given != nullptr ? std::atoi(given) : 10) *
               (GetParam() == Kind::kSyns ? std::max(entries, kHandshakes) : entries);
  }

  void Advance(uint64_t ns) { program_.SetClock(program_.given_now_ns() + ns); }
  uint16_t SendTcp(const FloodedFlow& flow, uint8_t flags, uint32_t sequence) {
    frame_ = tcp_;
    Put(frame_, kSourcePort, flow.port, 2), Put(frame_, kSequence, sequence, 4);
    frame_[kTcpFlags] = flags;
    return To(Run(frame_));
  }
  uint16_t SendUdp(const FloodedFlow& flow) {
    frame_ = udp_;
    Put(frame_, kSourcePort, flow.port, 2);
    return To(Run(frame_));
  }
  static uint16_t To(const Outcome& out) {
    return out.verdict == XDP_TX ? UnitByMac(out.bytes) : SPW_NO_UNIT;
  }
  FloodedFlow Begin() {
    FloodedFlow flow{next_port_++, static_cast<uint32_t>(random_())};
    flow.unit = SendTcp(flow, kSyn, flow.isn);
    return flow;
  }
  FloodedFlow Connect() {
    FloodedFlow flow = Begin();
    EXPECT_EQ(SendTcp(flow, kAck, flow.isn + 1), flow.unit);
    return flow;
  }

  // One packet of the flood, or the three of a handshake. Every eighth has a victim's address and ports, but
  // for handshakes: who knows these can forge one in full, with numbers of his own.
  void Strike(Kind kind, uint32_t i, const std::vector<FloodedFlow>& victims) {
    const bool is_datagram = kind == Kind::kDatagrams;
    frame_ = is_datagram ? udp_ : tcp_;
    const uint32_t isn = static_cast<uint32_t>(random_());
    if (i % 8 == 0 && !is_datagram && kind != Kind::kHandshakes) {
      Put(frame_, kSourcePort, victims[random_() % victims.size()].port, 2);
    } else {
      Put(frame_, kSource, 0x0b000000u + i / 50, 4);
      Put(frame_, kSourcePort, 1024 + i % 50, 2);
    }
    const auto send = [&](uint8_t flags, uint32_t sequence) {
      if (!is_datagram) Put(frame_, kSequence, sequence, 4), frame_[kTcpFlags] = flags;
      ASSERT_EQ(Run(frame_).verdict, XDP_TX);
    };
    switch (kind) {
      case Kind::kSyns:
        return send(kSyn, isn);
      case Kind::kHandshakes:
        for (uint32_t n = 0; n < 3; n++) send(n == 0 ? kSyn : kAck, isn + (n > 0));
        return;
      case Kind::kDatagrams:
      case Kind::kAcks:
        return send(kAck, isn);
      case Kind::kFins:
        return send(kFin | kAck, isn);
      case Kind::kRsts:
        return send(kRst, isn);
    }
  }

  uint32_t packets_ = 0;
  Bytes frame_;
  const Bytes tcp_ = Eth().Ip4(kClient, kVip).Tcp(1, 80);
  const Bytes udp_ = Eth().Ip4(kClient, kVip).Udp(1, 80).Payload(4);
  uint16_t next_port_ = 2000;
  std::mt19937_64 random_{70};
};

TEST_P(FloodTest, NoEstablishedFlowMovesAndNewOnesConnect) {
  std::vector<FloodedFlow> established, datagrams;
  for (int i = 0; i < 300; i++) {
    AllCpusBusy(i % 3 != 0);  // two of three deviate
    established.push_back(Connect());
    if (i % 2) SendTcp(established.back(), kAck, established.back().isn + 1);
  }
  Advance(600'000'000'000);  // idle for ten minutes
  for (int i = 0; i < 100; i++) {
    AllCpusBusy(i % 2);
    FloodedFlow flow{next_port_++};
    flow.unit = SendUdp(flow);
    SendUdp(flow);
    datagrams.push_back(flow);
  }
  Advance(30'000'000'000);

  // A million packets a second, beside round trips of 0, 50 and 200 ms.
  constexpr uint32_t kRtt[] = {0, 50'000, 200'000};
  std::deque<FloodedFlow> opening[3];
  size_t opened = 0, unconnected = 0, moved = 0;
  std::vector<FloodedFlow> live;
  for (uint32_t i = 0; i < packets_; i++) {
    if (i % 2048 == 0) {
      AllCpusBusy(i / 2048 % 4 != 0);
      for (int r = 0; r < 3; r++) {
        opening[r].push_back(Begin());
        opening[r].back().due = i + kRtt[r];
        opened++;
      }
    }
    for (auto& flows : opening) {
      for (; !flows.empty() && flows.front().due <= i; flows.pop_front()) {
        const FloodedFlow& flow = flows.front();
        if (SendTcp(flow, kAck, flow.isn + 1) == flow.unit)
          live.push_back(flow);
        else
          unconnected++;
      }
    }
    if (i % 1000 == 999 && !live.empty()) {
      const FloodedFlow& flow = live[random_() % live.size()];
      moved += SendTcp(flow, kAck | kPsh, flow.isn + 500) != flow.unit;
    }
    Advance(1000);
    ASSERT_NO_FATAL_FAILURE(Strike(GetParam(), i, established));
  }
  EXPECT_EQ(unconnected, 0u) << "of " << opened;
  for (const FloodedFlow& flow : live) moved += SendTcp(flow, kAck, flow.isn + 2) != flow.unit;
  EXPECT_EQ(moved, 0u) << "live, of " << live.size();
  moved = 0;
  for (const FloodedFlow& flow : established) moved += SendTcp(flow, kAck, flow.isn + 1) != flow.unit;
  EXPECT_EQ(moved, 0u) << "idle, of " << established.size();
  moved = 0;
  for (const FloodedFlow& flow : datagrams) moved += SendUdp(flow) != flow.unit;
  EXPECT_EQ(moved, 0u) << "datagram flows, of " << datagrams.size();
}

std::string NameOf(const testing::TestParamInfo<Kind>& info) {
  static const char* const kNames[] = {"Syns", "Handshakes", "Datagrams", "Acks", "Fins", "Rsts"};
  return kNames[static_cast<size_t>(info.param)];
}

INSTANTIATE_TEST_SUITE_P(Kinds, FloodTest,
                         testing::Values(Kind::kSyns, Kind::kHandshakes, Kind::kDatagrams, Kind::kAcks,
                                         Kind::kFins, Kind::kRsts),
                         NameOf);

}  // namespace
}  // namespace spillway::switching

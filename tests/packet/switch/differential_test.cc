// SPDX-License-Identifier: Apache-2.0
// One decision code: the BPF program and core/policy.h, compiled for user space, are given the same
// random states and the same packets and must answer alike, for every pair of policies.
#include <linux/bpf.h>
#include <sched.h>

#include <cstdlib>
#include <cstring>
#include <random>
#include <vector>

#include "switch_program.h"

namespace spillway::switching {
namespace {

constexpr uint32_t kServers = 16;
constexpr uint32_t kSilentBeats = 2000;

class DifferentialTest : public SwitchTest {
 protected:
  DifferentialTest() : SwitchTest(SwitchProgram::AtStandingClock()) {}
  void SetUp() override {
    SwitchTest::SetUp();
    // The program's draws are counted per CPU, so they are known only on one.
    cpu_set_t here;
    CPU_ZERO(&here);
    CPU_SET(static_cast<size_t>(sched_getcpu()), &here);
    ASSERT_EQ(sched_setaffinity(0, sizeof(here), &here), 0);
    service_ = &Service("203.0.113.53", 53, 17);
    for (uint32_t id = 0; id < kServers * 8; id++) {
      spw_unit& unit = program_.units[id];
      unit.mac[0] = 0x02, unit.mac[1] = 0xcc, unit.mac[4] = static_cast<uint8_t>(id >> 8),
      unit.mac[5] = static_cast<uint8_t>(id);
      unit.ifindex = 1;
      unit.alive = unit.resolved = 1;
    }
    for (uint32_t i = 0; i < service_->ring_slots; i++) {
      uint16_t unit = static_cast<uint16_t>(random_() % (kServers * 8));
      program_.ring_slots[service_->ring_offset + i] = {unit, unit, 0, 0};
    }
  }

  void Randomise(spw_server& server) {
    uint32_t beat = spw_beats(now_);
    bool crowded = random_() % 4 == 0, all_heard = random_() % 2 == 0;  // p2c compares only such servers
    server.silent_beats = kSilentBeats;
    server.draws = static_cast<uint32_t>(random_());
    server.pressure = static_cast<uint32_t>(random_() % (1 << 20));
    server.share_ns = random_() % 1'000'000'000;
    bool all_learnt = random_() % 2 == 0;
    server.failing = random_() % 2 == 0 ? static_cast<uint32_t>(random_() & random_() & 0xff)
                     : random_() % 4    ? 0
                                        : 0xff;
    server.deputy = static_cast<uint32_t>(random_() % (kServers * 8 + 1));
    server.pool = static_cast<uint32_t>(random_() % 2);
    for (int u = 0; u < 8; u++) {
      auto status = random_() % 2 ? random_() % 4 : uint64_t{SPW_UNIT_UP};
      server.unit[u] = {static_cast<uint8_t>(status), static_cast<uint8_t>(random_() % 6),
                        static_cast<uint16_t>(1 + random_() % 10'000)};
      spw_unit_load& load = server.load[u];
      load = {};
      load.flags = static_cast<uint8_t>(random_() % 16);
      server.health[u] = {beat - static_cast<uint32_t>(random_() % 4000),
                          beat - static_cast<uint32_t>(random_() % 300)};
      load.queue = static_cast<uint16_t>(crowded ? random_() : random_() % 8);
      load.assigned = static_cast<uint32_t>(crowded ? random_() : random_() % 8);
      load.latency_us = random_() % 4 == 0 ? 0 : static_cast<uint32_t>(random_() >> (32 + random_() % 32));
      bool learnt = all_learnt || random_() % 8 != 0;
      load.base_us = learnt ? static_cast<uint32_t>(1 + random_() % 1'000'000) : 0;
      load.slot_ns = static_cast<uint32_t>(1 + (random_() >> (32 + random_() % 31)));
      load.knee_us = static_cast<uint32_t>(random_() % 2'000'000);
      load.tail_us = static_cast<uint32_t>(random_() % 4'000'000);
      load.share_ns = random_() % 2'000'000'000;
      load.drained_ns = now_ + random_() % 2'000'000'000 - 1'000'000'000;
      uint32_t age = static_cast<uint32_t>(random_() % (all_heard ? kSilentBeats : 2 * kSilentBeats));
      load.report_beat = (!all_heard && random_() % 10 == 0) || beat - age == 0 ? 0 : beat - age;
    }
  }

  const uint64_t now_ = program_.given_now_ns();
  std::mt19937_64 random_{60};
  spw_endpoint* service_ = nullptr;
};

TEST_F(DifferentialTest, KernelAndUserSpaceChooseAlike) {
  // Fewer where the processor is emulated (tests/guest).
  const char* given = std::getenv("SPILLWAY_DIFFERENTIAL_ROUNDS");
  const int rounds = given != nullptr ? std::atoi(given) : 250'000;
  std::map<std::pair<int, int>, std::map<int, int>> answers;  // (policies) -> verdicts seen
  std::map<size_t, int> attempts;                             // which of them placed how many
  int second_preferred = 0;
  for (uint32_t code = 0; code < kServers; code++) Randomise(program_.servers[code]);
  for (int round = 0; round < rounds; round++) {
    int server_policy = static_cast<int>(random_() % SPW_SERVER_POLICIES);
    int unit_policy = static_cast<int>(random_() % SPW_UNIT_POLICIES);
    service_->server_policy = static_cast<uint8_t>(server_policy);
    service_->unit_policy = static_cast<uint8_t>(unit_policy);
    std::string client =
        "100." + std::to_string(random_() % 256) + "." + std::to_string(random_() % 256) + ".9";
    uint16_t port = static_cast<uint16_t>(random_());
    uint64_t hash = spw_spread(Hash(client, "203.0.113.53", port, 53, 17),
                               static_cast<uint32_t>(program_.CountersOn(sched_getcpu()).new_flows));
    auto slot = [&](uint32_t index) { return program_.ring_slots[service_->ring_offset + index].next; };
    uint16_t first = slot(spw_ring_index(hash, service_->ring_slots));
    uint16_t second = slot(spw_ring_second_index(hash, service_->ring_slots));
    spw_server& a = program_.servers[spw_unit_server(first)];
    spw_server& b = program_.servers[spw_unit_server(second)];
    if (round % 512 == 0) {  // a fault common to all
      for (uint32_t code = 0; code < kServers; code++) {
        spw_server& server = program_.servers[code];
        Randomise(server);
        server.failing = 0xff;
        for (int u = 0; u < 8; u++) {
          server.load[u].report_beat = spw_beats(now_);
          server.health[u].probe_beat = spw_beats(now_);
        }
      }
    } else {
      Randomise(a), Randomise(b);
    }

    uint16_t candidate = first, expected = SPW_NO_UNIT;
    if (server_policy == SPW_SERVER_P2C && &a != &b &&
        spw_prefer_second(&a, &b, static_cast<uint8_t>(unit_policy), now_)) {
      candidate = second;
      second_preferred++;
    }
    // The server that is chosen, the other of the first two slots, six further slots, the deputy of the
    // first slot's server; then the first two as if no unit failed.
    std::vector<uint16_t> candidates = {candidate, candidate == first ? second : first};
    for (uint32_t number = 2; number < 8; number++)
      candidates.push_back(slot(spw_ring_further_index(hash, number, service_->ring_slots)));
    const uint16_t deputy = static_cast<uint16_t>(a.deputy - 1);
    const bool is_of_the_pool =
        deputy != SPW_NO_UNIT && program_.servers[spw_unit_server(deputy)].pool == a.pool;
    candidates.push_back(is_of_the_pool ? deputy : SPW_NO_UNIT);
    const size_t fail_open_from = candidates.size();
    candidates.push_back(first), candidates.push_back(second);
    size_t attempt = 0;
    for (; attempt < candidates.size(); attempt++) {
      if (candidates[attempt] == SPW_NO_UNIT) continue;
      const uint32_t code = spw_unit_server(candidates[attempt]);
      const spw_server& server = program_.servers[code];
      int unit = spw_choose(&server, static_cast<uint8_t>(unit_policy), spw_unit_index(candidates[attempt]),
                            hash, now_, server.draws, attempt >= fail_open_from);
      if (unit < 0) continue;
      expected = spw_unit_id(code, static_cast<uint32_t>(unit));
      break;
    }
    spw_server after{}, first_after = a;
    if (expected != SPW_NO_UNIT) {
      after = program_.servers[spw_unit_server(expected)];
      spw_place_on(&after, static_cast<uint8_t>(unit_policy), spw_unit_index(expected), now_);
      const bool diverted = attempt > 0 && attempt < fail_open_from;
      if (diverted) first_after.deputy = 1u + expected;
      if (diverted && spw_unit_server(expected) == spw_unit_server(first)) after.deputy = 1u + expected;
      attempts[attempt]++;
    }

    Outcome out = Run(Eth().Ip4(client, "203.0.113.53").Udp(port, 53).Payload(4));
    uint16_t chosen = out.verdict == XDP_TX ? UnitByMac(out.bytes) : SPW_NO_UNIT;
    ASSERT_EQ(chosen, expected) << "round " << round << " server policy " << server_policy << " unit policy "
                                << unit_policy;
    ASSERT_EQ(out.verdict, expected == SPW_NO_UNIT ? XDP_DROP : XDP_TX);
    answers[{server_policy, unit_policy}][out.verdict]++;
    if (expected == SPW_NO_UNIT) continue;
    ASSERT_EQ(std::memcmp(&after, &program_.servers[spw_unit_server(expected)], sizeof(after)), 0) << round;
    ASSERT_EQ(a.deputy, first_after.deputy) << round;
  }
  EXPECT_EQ(answers.size(), size_t{SPW_SERVER_POLICIES} * size_t{SPW_UNIT_POLICIES});
  for (const auto& [policies, verdicts] : answers) EXPECT_GT(verdicts.at(XDP_TX), rounds / 1000);
  EXPECT_GT(second_preferred, rounds / 2000);
  for (size_t attempt : {0, 1, 2, 3, 9}) EXPECT_GT(attempts[attempt], rounds / 100'000) << attempt;
}

// The hash too: the slot that user space computes is the one the program uses, in both families.
TEST_F(DifferentialTest, KernelAndUserSpaceHashAlike) {
  for (const char* vip : {"203.0.113.20", "2001:db8:ff::20"}) {
    spw_endpoint& service = Service(vip, 443, 6);
    for (uint32_t i = 0; i < service.ring_slots; i++) {
      uint16_t unit = static_cast<uint16_t>(random_() % (kServers * 8));
      program_.ring_slots[service.ring_offset + i] = {unit, unit, 0, 0};
    }
    bool v6 = std::string(vip).find(':') != std::string::npos;
    for (int i = 0; i < 5000; i++) {
      std::string client =
          v6 ? "2001:db8:" + std::to_string(random_() % 9999) + "::" + std::to_string(random_() % 9999)
             : "100." + std::to_string(random_() % 256) + "." + std::to_string(random_() % 256) + ".9";
      uint16_t port = static_cast<uint16_t>(random_());
      Eth eth = v6 ? Eth().Ip6(client, vip) : Eth().Ip4(client, vip);
      ASSERT_EQ(Sent(eth.Tcp(port, 443)), SlotOf(service, Hash(client, vip, port, 443, 6)).owner) << client;
    }
  }
}

}  // namespace
}  // namespace spillway::switching

// SPDX-License-Identifier: Apache-2.0
// Slow floods, which stay below every rate and go on for hours: what they fill, what new flows still get, and
// that drains end. Fast ones are flood_test.cc's.
#include <linux/bpf.h>

#include <algorithm>
#include <cstdlib>
#include <random>
#include <vector>

#include "switch/flow_sweeper.h"
#include "switch/ring_keeper.h"
#include "switch_program.h"

namespace spillway::switching {
namespace {

constexpr uint64_t kSecond = 1'000'000'000;

struct Flow {
  uint16_t port = 0;
  uint32_t isn = 0;
  uint16_t unit = SPW_NO_UNIT;
};

class PressureTest : public SwitchTest {
 protected:
  PressureTest() : SwitchTest(SwitchProgram::AtStandingClock()) {}
  void SetUp() override {
    SwitchTest::SetUp();
    Advance(100 * kSecond);  // what other tests inserted is of another tick
    limits_ = program_.plan().flow_limits;
    entries_ = program_.flow_buckets() * SPW_BUCKET_ENTRIES;
    const char* given = std::getenv("SPILLWAY_FLOOD_TIMES");  // fewer where the processor is emulated
    times_ = given != nullptr ? static_cast<uint32_t>(std::atoi(given)) : 10;
  }

  void Advance(uint64_t ns) { program_.SetClock(program_.given_now_ns() + ns); }
  uint32_t Tick() const { return spw_ticks(program_.given_now_ns()); }
  uint16_t Send(const Bytes& frame) {
    Outcome out = Run(frame);
    return out.verdict == XDP_TX ? UnitByMac(out.bytes) : SPW_NO_UNIT;
  }
  uint16_t SendTcp(const Flow& flow, uint8_t flags, uint32_t sequence) {
    frame_ = tcp_;
    Put(frame_, kSourcePort, flow.port, 2), Put(frame_, kSequence, sequence, 4);
    frame_[kTcpFlags] = flags;
    return Send(frame_);
  }
  uint16_t SendUdp(uint16_t port) {
    frame_ = udp_;
    Put(frame_, kSourcePort, port, 2);
    return Send(frame_);
  }
  // From an address of its own each.
  void Strange(uint8_t flags, uint32_t source, uint32_t sequence) {
    frame_ = tcp_;
    Put(frame_, kSource, 0x0b000000u + source / 50, 4);
    Put(frame_, kSourcePort, 1024 + source % 50, 2);
    Put(frame_, kSequence, sequence, 4);
    frame_[kTcpFlags] = flags;
    ASSERT_EQ(Run(frame_).verdict, XDP_TX);
  }
  Flow Begin() {
    Flow flow{next_port_++, static_cast<uint32_t>(random_())};
    flow.unit = SendTcp(flow, kSyn, flow.isn);
    return flow;
  }
  Flow Connect() {
    Flow flow = Begin();
    EXPECT_EQ(SendTcp(flow, kAck, flow.isn + 1), flow.unit);
    return flow;
  }
  // As spillwayd does, the whole table at once.
  void Sweep() {
    sweeper_.Sweep({&program_.flow_table[0], program_.flow_table.size(), &program_.flow_filter[0],
                    program_.flow_filter.size()},
                   program_.flow_table.size(), Tick(), limits_, [](uint16_t) { return true; });
  }
  void MoveRing() {
    spw_endpoint& service = Service(kVip, 80, 6);
    const uint16_t s1 = Id("four", "s1", "cpu"), s2 = Id("four", "s2", "cpu");
    for (uint32_t i = 0; i < service.ring_slots; i++) {
      spw_ring_slot& slot = program_.ring_slots[service.ring_offset + i];
      slot.next = slot.owner == s1 ? s2 : s1;
      slot.entryless_tick = spw_slot_tick(Tick());
    }
  }
  // Every place of the table taken by somebody who proved himself.
  void FillTable() {
    for (uint32_t b = 0; b < program_.flow_table.size(); b++)
      for (__u64& entry : program_.flow_table[b].entry)
        entry = spw_flow_entry(static_cast<uint32_t>(random_() >> 33), 1, SPW_FLOW_OPEN, Tick());
  }
  void ExpectStay(const std::vector<Flow>& flows, const char* which) {
    size_t moved = 0;
    for (const Flow& flow : flows) moved += SendTcp(flow, kAck, flow.isn + 1) != flow.unit;
    EXPECT_EQ(moved, 0u) << which << ", of " << flows.size();
  }

  spw_flow_limits limits_ = 0;
  uint32_t entries_ = 0, times_ = 10;
  FlowSweeper sweeper_;
  Bytes frame_;
  const Bytes tcp_ = Eth().Ip4(kClient, kVip).Tcp(1, 80);
  const Bytes udp_ = Eth().Ip4(kClient, kVip).Udp(1, 80).Payload(4);
  uint16_t next_port_ = 2000;
  std::mt19937_64 random_{71};
};

// SYN and ACK with the attacker's own numbers, ten times the table within the idle time of an hour.
TEST_F(PressureTest, HandshakesThatShowNothingElseDoNotFillTheTable) {
  AllCpusBusy(true);
  std::vector<Flow> silent, live;
  for (int i = 0; i < 300; i++) silent.push_back(Connect());
  const uint32_t pairs = times_ * entries_;
  size_t opened = 0, off_the_ring = 0;
  for (uint32_t i = 0; i < pairs; i++) {
    const auto isn = static_cast<uint32_t>(random_());
    ASSERT_NO_FATAL_FAILURE(Strange(kSyn, i, isn));
    ASSERT_NO_FATAL_FAILURE(Strange(kAck, i, isn + 1));
    if (i % 500 == 0) {
      AllCpusBusy(true);  // reports stay fresh
      Flow flow = Begin();
      Advance(50'000'000);
      EXPECT_EQ(SendTcp(flow, kAck, flow.isn + 1), flow.unit);
      EXPECT_EQ(SendTcp(flow, kAck | kPsh, flow.isn + 1), flow.unit);
      opened++;
      off_the_ring += spw_unit_index(flow.unit) == 1;
      live.push_back(flow);
    }
    if (i % (pairs / 360) == 0) Sweep();
    Advance(3500 * kSecond / pairs);
  }
  // Where none of a flow's sixteen places is given back within a minute, it stays on the ring.
  EXPECT_GE(off_the_ring, opened * 98 / 100) << "of " << opened << " as the policy chose";
  ExpectStay(live, "live");
  ExpectStay(silent, "silent since their handshake, before the flood");
}

// ACKs of nobody's on slots that move.
TEST_F(PressureTest, StrayPacketsOnMovedSlotsDoNotFillTheTable) {
  std::vector<Flow> established;
  for (int i = 0; i < 300; i++) established.push_back(Connect());
  MoveRing();
  ExpectStay(established, "just moved");
  const uint32_t packets = times_ * entries_;
  size_t opened = 0, off_the_ring = 0;
  for (uint32_t i = 0; i < packets; i++) {
    ASSERT_NO_FATAL_FAILURE(Strange(kAck, i, static_cast<uint32_t>(random_())));
    if (i % 500 == 0) {
      AllCpusBusy(true);
      const Flow flow = Connect();
      opened++;
      off_the_ring += spw_unit_index(flow.unit) == 1;
    }
    if (i % (packets / 360) == 0) Sweep();
    Advance(3500 * kSecond / packets);
  }
  // Where none of a flow's sixteen places is given back within a minute, it stays on the ring.
  EXPECT_GE(off_the_ring, opened * 98 / 100) << "of " << opened << " as the policy chose";
  ExpectStay(established, "established");
}

// Of which none is ever completed, 8,000 a second.
TEST_F(PressureTest, AFloodOfSynsLeavesThePolicyItsChoice) {
  std::vector<Flow> opening;
  size_t opened = 0, off_the_ring = 0;
  constexpr uint32_t kPerSecond = 8'000;
  for (uint32_t i = 0; i < 2 * times_ * kPerSecond; i++) {
    ASSERT_NO_FATAL_FAILURE(Strange(kSyn, i, static_cast<uint32_t>(random_())));
    if (i % 100 == 0) {
      AllCpusBusy(true);
      const Flow flow = Connect();
      opened++;
      off_the_ring += spw_unit_index(flow.unit) == 1;
    }
    Advance(kSecond / kPerSecond);
  }
  EXPECT_GE(off_the_ring, opened * 95 / 100) << "of " << opened;
}

// Of a tick, whatever flows come: the others stay on their slot's owner.
TEST_F(PressureTest, NewFlowsWriteOnlySoManyEntriesATick) {
  const uint64_t budget = std::max(4096u, entries_ / 64);
  const auto inserted_of = [&](uint16_t first) {
    Counted();
    for (uint16_t i = 0; i < 8000; i++) EXPECT_NE(SendUdp(static_cast<uint16_t>(first + i)), SPW_NO_UNIT);
    Counts count = Counted();
    return count["flows_inserted"];
  };
  const uint64_t first = inserted_of(10'000);
  EXPECT_LE(first, budget);
  EXPECT_GT(first, budget / 2) << "there is room";
  Advance(kSecond * 2);
  const uint64_t later = inserted_of(20'000);
  EXPECT_LE(later, budget);
  EXPECT_GT(later, budget / 2) << "another tick's";
  // A packet whose clock is behind by some milliseconds, just after a tick began.
  const uint64_t tick = 1ull << SPW_TICK_SHIFT;
  Advance(0 - tick);
  SendUdp(40'000);
  Advance(tick);
  EXPECT_LE(later + inserted_of(30'000), budget) << "still the same tick";
}

class FailingOwnerTest : public PressureTest {
 protected:
  void ExpectToConnectElsewhere() {
    const auto failing = static_cast<uint32_t>(spw_unit_server(Id("four", "s1", "cpu")));
    TakeOut(spw_unit_id(failing, 0)), TakeOut(spw_unit_id(failing, 1));
    for (int i = 0; i < 200; i++) {
      const Flow flow = Begin();
      ASSERT_NE(spw_unit_server(flow.unit), failing) << i;
      ASSERT_EQ(SendTcp(flow, kAck, flow.isn + 1), flow.unit);
      ASSERT_EQ(SendTcp(flow, kAck | kPsh, flow.isn + 1), flow.unit);
    }
  }
};

TEST_F(FailingOwnerTest, NewFlowsConnectThoughTheTableIsFull) {
  FillTable();
  SendUdp(1);  // finds no place: from now on SYNs ask for one
  ExpectToConnectElsewhere();
}

TEST_F(FailingOwnerTest, NewFlowsConnectWhileEntriesAreWrittenTooFast) {
  for (uint16_t port = 1; port < 8000; port++) SendUdp(port);
  ExpectToConnectElsewhere();
}

class MovedSlotTest : public PressureTest {
 protected:
  static constexpr uint32_t kIdle = 600;  // ticks
  // Ticks until all slots have settled, with `junk` ten times in each; 0: not within three idle times.
  template <class Junk>
  uint32_t TicksToSettle(Junk junk) {
    spw_endpoint& service = Service(kVip, 80, 6);
    const uint32_t begun = Tick();
    RingMoves moves;
    for (uint32_t tick = begun; tick < begun + 3 * kIdle; tick++) {
      for (int i = 0; i < 10; i++) {
        junk();
        Advance((uint64_t{1} << SPW_TICK_SHIFT) / 10);
      }
      const RingTally tally =
          SettleRing(&program_.ring_slots[service.ring_offset], service.ring_slots, moves, Tick(),
                     {kIdle, 3600, program_.displaced_tick()}, [](uint16_t) { return true; });
      if (tally.moved == 0) return Tick() - begun;
    }
    return 0;
  }
  // SYN, and an ACK that does not go on from it.
  void Junk() {
    const auto source = static_cast<uint32_t>(random_() % 100'000);
    Strange(kSyn, source, 0x10000000), Strange(kAck, source, 0x90000000);
  }
};

TEST_F(MovedSlotTest, JunkDoesNotKeepASlotFromSettling) {
  spw_endpoint& service = Service(kVip, 80, 6);
  service.ring_slots = 16;
  MoveRing();
  const uint32_t ticks = TicksToSettle([&] { Junk(); });
  EXPECT_GT(ticks, kIdle);
  EXPECT_LE(ticks, kIdle + 80);
}

TEST_F(MovedSlotTest, JunkDoesNotKeepASlotFromSettlingWhereTheTableIsFull) {
  spw_endpoint& service = Service(kVip, 80, 6);
  service.ring_slots = 16;
  MoveRing();
  FillTable();
  const uint32_t ticks = TicksToSettle([&] { Junk(); });
  EXPECT_GT(ticks, kIdle);
  EXPECT_LE(ticks, 2 * kIdle + 2);
}

}  // namespace
}  // namespace spillway::switching

// SPDX-License-Identifier: Apache-2.0
// A TCP connection's life in the switch: what decides, what is remembered, and that an established
// flow never changes unit while that unit lives.
#include <linux/bpf.h>

#include <map>

#include "switch/flow_sweeper.h"
#include "switch_program.h"

namespace spillway::switching {
namespace {

class TcpLifeTest : public SwitchTest {
 protected:
  Bytes Packet(uint16_t port, uint8_t flags) { return Eth().Ip4(kClient, kVip).Tcp(port, 80).Flags(flags); }
  uint16_t Syn(uint16_t port) { return Sent(Packet(port, kSyn)); }
  uint16_t Ack(uint16_t port) { return Sent(Packet(port, kAck)); }
  uint16_t Fin(uint16_t port) { return Sent(Packet(port, kFin | kAck)); }
  uint64_t FlowHash(uint16_t port) { return Hash(kClient, kVip, port, 80, 6); }
  spw_ring_slot& Slot(uint16_t port) { return SlotOf(Service(kVip, 80, 6), FlowHash(port)); }
  // A flow on its server's nic, established and confirmed by a second packet.
  uint16_t Deviating(uint16_t port) {
    AllCpusBusy(true);
    uint16_t unit = Syn(port);
    EXPECT_EQ(Ack(port), unit);
    EXPECT_EQ(Ack(port), unit);
    EXPECT_EQ(spw_unit_index(unit), 1u);
    AllCpusBusy(false);
    Counted();
    return unit;
  }
};

TEST_F(TcpLifeTest, DefaultPlacedFlowsLeaveTheTableEmpty) {
  for (uint16_t port = 1000; port < 2000; port++) {
    uint16_t unit = Syn(port);
    ASSERT_EQ(unit, Slot(port).owner);
    ASSERT_EQ(Ack(port), unit);
    ASSERT_EQ(Ack(port), unit);
    ASSERT_EQ(Fin(port), unit);
  }
  EXPECT_EQ(FlowEntries(), 0u);
  EXPECT_EQ(Counted(), (Counts{{"packets_forwarded", 4000}, {"new_flows", 1000}, {"placed_on_ring", 3000}}));
}

TEST_F(TcpLifeTest, TheSynDecidesAndTheAckWritesTheEntryOfADeviation) {
  AllCpusBusy(true);
  uint16_t unit = Syn(5000);
  EXPECT_EQ(spw_unit_index(unit), 1u);
  EXPECT_EQ(FlowEntries(), 0u);
  EXPECT_EQ(Counted(), (Counts{{"packets_forwarded", 1}, {"new_flows", 1}}));
  AllCpusBusy(false);
  EXPECT_EQ(Ack(5000), unit);
  EXPECT_EQ(FlowEntries(), 1u);
  EXPECT_EQ(spw_entry_state(*FlowEntry(FlowHash(5000))), SPW_FLOW_OPEN);
  EXPECT_EQ(Counted(), (Counts{{"packets_forwarded", 1}, {"flows_inserted", 1}, {"placed_by_entry", 1}}));
  EXPECT_EQ(Ack(5000), unit);
  EXPECT_EQ(Counted(), (Counts{{"packets_forwarded", 1}, {"placed_by_entry", 1}}));
}

TEST_F(TcpLifeTest, ARepeatedSynMeetsTheSameUnitThoughThePolicyChangedItsMind) {
  uint16_t unit = Syn(5000);
  AllCpusBusy(true);
  EXPECT_EQ(Syn(5000), unit);
  EXPECT_EQ(Counted(), (Counts{{"packets_forwarded", 2}, {"new_flows", 1}, {"syn_repeated", 1}}));
  EXPECT_NE(Syn(5001), spw_unit_id(spw_unit_server(Slot(5001).owner), 0)) << "others follow the new state";
}

TEST_F(TcpLifeTest, AHalfOpenFlowIsForgottenAfterItsTime) {
  uint16_t unit = Syn(5000);
  AgeHalfOpen(SPW_HALF_OPEN_AGE + 1);
  AllCpusBusy(true);
  EXPECT_NE(Syn(5000), unit);
}

TEST_F(TcpLifeTest, SweepsRenewTheFilterUnderLivingFlows) {
  std::map<uint16_t, uint16_t> units;
  FlowSweeper sweeper;
  for (int round = 0; round < 6; round++) {
    for (uint16_t port = 5000; port < 5100; port++)
      units[static_cast<uint16_t>(port + 100 * round)] = Deviating(static_cast<uint16_t>(port + 100 * round));
    sweeper.Sweep({&program_.flow_table[0], program_.flow_table.size(), &program_.flow_filter[0],
                   program_.flow_filter.size()},
                  program_.flow_table.size(), NowTick() + 70 * static_cast<uint32_t>(round),
                  program_.plan().flow_limits, [](uint16_t) { return true; });
    for (auto [port, unit] : units) ASSERT_EQ(Ack(port), unit) << "round " << round;
  }
  EXPECT_EQ(FlowEntries(), 600u);
  EXPECT_EQ(sweeper.rounds(), 6u);
}

TEST_F(TcpLifeTest, FinAndRstCloseTheEntry) {
  for (uint8_t flags : {kFin | kAck, kRst + 0, kRst | kAck}) {
    uint16_t port = static_cast<uint16_t>(6000 + flags), unit = Deviating(port);
    EXPECT_EQ(Sent(Packet(port, flags)), unit);
    EXPECT_EQ(spw_entry_state(*FlowEntry(FlowHash(port))), SPW_FLOW_CLOSED) << "it knew the connection";
    EXPECT_EQ(Ack(port), unit) << "the last ACK still finds its unit";
    EXPECT_EQ(spw_entry_state(*FlowEntry(FlowHash(port))), SPW_FLOW_CLOSED);
  }
}

TEST_F(TcpLifeTest, ANewSynAfterFinDecidesAnew) {
  uint16_t unit = Deviating(5000);
  EXPECT_EQ(Fin(5000), unit);
  AgeHalfOpen(SPW_HALF_OPEN_AGE + 1);  // else it is a SYN repeated
  uint16_t again = Syn(5000);
  EXPECT_EQ(again, Slot(5000).owner);
  EXPECT_EQ(Ack(5000), again);
  EXPECT_EQ(FlowEntries(), 0u) << "the old entry is gone";
}

TEST_F(TcpLifeTest, ALateSynOfALivingFlowDoesNotMoveIt) {
  uint16_t unit = Deviating(5000);
  AgeHalfOpen(SPW_HALF_OPEN_AGE + 1);
  EXPECT_EQ(Syn(5000), unit);
  EXPECT_EQ(Ack(5000), unit);
}

TEST_F(TcpLifeTest, ASynAckIsNoSyn) {
  EXPECT_EQ(Sent(Packet(5000, kSyn | kAck)), Slot(5000).owner);
  EXPECT_EQ(Counted(), (Counts{{"packets_forwarded", 1}, {"placed_on_ring", 1}}));
}

TEST_F(TcpLifeTest, ADrainingUnitKeepsItsFlowsAndGetsNoNewOnes) {
  uint16_t deviating = Deviating(5000);
  uint16_t by_ring = Syn(5001);
  EXPECT_EQ(Ack(5001), by_ring);
  SetStatus(deviating, SPW_UNIT_DRAINING);
  SetStatus(by_ring, SPW_UNIT_DRAINING);
  EXPECT_EQ(Ack(5000), deviating);
  EXPECT_EQ(Ack(5001), by_ring);
  for (uint16_t port = 10000; port < 11000; port++) {
    uint16_t unit = Syn(port);
    ASSERT_NE(unit, deviating);
    ASSERT_NE(unit, by_ring);
    ASSERT_EQ(Ack(port), unit);
  }
}

// A handshake leaves the ring, and its ACK comes late: spillwayd has swept the table many times by then.
TEST_F(TcpLifeTest, ASlowHandshakeSurvivesSweeps) {
  AllCpusBusy(true);
  const uint16_t unit = Syn(5000);
  FlowSweeper sweeper;
  for (uint32_t tick = NowTick(); tick < NowTick() + 60; tick++)
    sweeper.Sweep({&program_.flow_table[0], program_.flow_table.size(), &program_.flow_filter[0],
                   program_.flow_filter.size()},
                  program_.flow_table.size(), tick, program_.plan().flow_limits,
                  [](uint16_t) { return true; });
  AgeHalfOpen(SPW_HALF_OPEN_AGE - 10);
  EXPECT_EQ(Ack(5000), unit);
  EXPECT_EQ(Ack(5000), unit);
}

TEST_F(TcpLifeTest, TheUnitOfARefusedHandshakeIsForgottenWithItsRst) {
  AllCpusBusy(true);
  const uint16_t unit = Syn(5000);
  EXPECT_EQ(Sent(Packet(5000, kRst)), unit) << "it is the handshake's";
  EXPECT_EQ(Ack(5000), Slot(5000).owner);
  EXPECT_EQ(FlowEntries(), 0u);
}

TEST_F(TcpLifeTest, ADeadUnitsFlowsArePlacedAnew) {
  uint16_t unit = Deviating(5000);
  SetStatus(unit, SPW_UNIT_DOWN);
  uint16_t next = Ack(5000);
  EXPECT_EQ(next, Slot(5000).owner);
  EXPECT_EQ(FlowEntries(), 0u);
  EXPECT_EQ(Counted(), (Counts{{"packets_forwarded", 1}, {"flows_replaced", 1}, {"placed_on_ring", 1}}));
  EXPECT_EQ(Ack(5000), next) << "and stay there";
}

TEST_F(TcpLifeTest, ADeadOwnersFlowsFollowTheSlot) {
  uint16_t owner = Syn(5001);
  EXPECT_EQ(Ack(5001), owner);
  uint16_t heir =
      Id("four", spw_unit_server(owner) == spw_unit_server(Id("four", "s1", "cpu")) ? "s2" : "s1", "cpu");
  Slot(5001).next = heir;
  SetStatus(owner, SPW_UNIT_DOWN);
  Counted();
  EXPECT_EQ(Ack(5001), heir);
  EXPECT_EQ(Counted(), (Counts{{"packets_forwarded", 1}, {"flows_replaced", 1}, {"placed_on_ring", 1}}));
}

TEST_F(TcpLifeTest, AMovedSlotKeepsItsOwnerForOldFlowsAndGivesNewFlowsEntries) {
  const uint16_t s1 = Id("four", "s1", "cpu"), s2 = Id("four", "s2", "cpu");
  spw_endpoint& service = Service(kVip, 80, 6);
  std::map<uint16_t, uint16_t> before;
  for (uint16_t port = 1000; port < 1200; port++) before[port] = Syn(port), Ack(port);
  for (uint32_t i = 0; i < service.ring_slots; i++) {
    spw_ring_slot& slot = program_.ring_slots[service.ring_offset + i];
    slot.next = slot.owner == s1 ? s2 : s1;
  }
  Counted();
  for (auto [port, unit] : before) {
    ASSERT_EQ(Ack(port), unit) << "established, without an entry";
    ASSERT_EQ(Slot(port).entryless_tick, 0) << "the slot need not wait for it";
  }
  EXPECT_EQ(FlowEntries(), before.size()) << "from now on it has one";
  Counted();
  for (uint16_t port = 2000; port < 2200; port++) {
    uint16_t unit = Syn(port);
    ASSERT_EQ(unit, Slot(port).next);
    ASSERT_EQ(Ack(port), unit);
    ASSERT_EQ(Ack(port), unit);
  }
  EXPECT_EQ(FlowEntries(), 400u);
  EXPECT_EQ(Counted(), (Counts{{"packets_forwarded", 600},
                               {"new_flows", 200},
                               {"flows_inserted", 200},
                               {"placed_by_entry", 400}}));
  // Settled: old and new flows alike are where they were.
  for (uint32_t i = 0; i < service.ring_slots; i++) {
    spw_ring_slot& slot = program_.ring_slots[service.ring_offset + i];
    slot.owner = slot.next;
  }
  for (uint16_t port = 2000; port < 2200; port++) ASSERT_EQ(Ack(port), Slot(port).owner);
  for (auto [port, unit] : before) ASSERT_EQ(Ack(port), unit);
}

// A flow in its handshake while the slot moves: the SYN's unit is where the first ACK goes.
TEST_F(TcpLifeTest, AHandshakeSurvivesTheMoveOfItsSlot) {
  uint16_t unit = Syn(5000);
  Slot(5000).next = spw_unit_id(spw_unit_server(unit), 1);
  EXPECT_EQ(Ack(5000), unit);
  Slot(5000).next = unit;
  AllCpusBusy(true);
  uint16_t nic = Syn(5001);
  Slot(5001).owner = Slot(5001).next = nic;  // settled on the very unit meanwhile
  EXPECT_EQ(Ack(5001), nic);
}

// Flipping reports at every packet: no established flow moves.
TEST_F(TcpLifeTest, FlippingReportsMoveNoEstablishedFlow) {
  std::map<uint16_t, uint16_t> flows;
  for (uint16_t port = 1000; port < 3000; port++) {
    AllCpusBusy(port % 2);
    flows[port] = Syn(port);
  }
  for (int round = 0; round < 5; round++) {
    for (auto [port, unit] : flows) {
      if (port % 16 == 0) AllCpusBusy(port / 16 % 2);
      ASSERT_EQ(Ack(port), unit);
    }
  }
}

}  // namespace
}  // namespace spillway::switching

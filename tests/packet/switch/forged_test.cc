// SPDX-License-Identifier: Apache-2.0
// Single packets that somebody forged, or that come late: what they must not do to a flow. Floods of them
// are flood_test.cc's.
#include <linux/bpf.h>

#include <map>

#include "switch/flow_sweeper.h"
#include "switch/ring_keeper.h"
#include "switch_program.h"

namespace spillway::switching {
namespace {

constexpr uint32_t kIsn = 0x3fffff00, kForgedIsn = 0x9abcdef0;

class ForgedTest : public SwitchTest {
 protected:
  uint16_t Tcp(uint16_t port, uint8_t flags, uint32_t sequence, size_t payload = 0) {
    return Sent(Eth().Ip4(kClient, kVip).Tcp(port, 80).Flags(flags).Seq(sequence).Payload(payload));
  }
  uint16_t Syn(uint16_t port, uint32_t isn = kIsn) { return Tcp(port, kSyn, isn); }
  uint16_t Ack(uint16_t port, uint32_t sequence = kIsn + 1) { return Tcp(port, kAck, sequence); }
  uint64_t FlowHash(uint16_t port) { return Hash(kClient, kVip, port, 80, 6); }
  spw_ring_slot& Slot(uint16_t port) { return SlotOf(Service(kVip, 80, 6), FlowHash(port)); }
  uint16_t Datagram(uint16_t port) { return Sent(Eth().Ip4(kClient, kVip).Udp(port, 80).Payload(4)); }
  uint16_t Deviating(uint16_t port) {
    AllCpusBusy(true);
    const uint16_t unit = Syn(port);
    EXPECT_EQ(Ack(port), unit);
    EXPECT_EQ(Ack(port), unit);
    EXPECT_EQ(spw_unit_index(unit), 1u);
    AllCpusBusy(false);
    return unit;
  }
  void Sweep() {
    sweeper_.Sweep({&program_.flow_table[0], program_.flow_table.size(), &program_.flow_filter[0],
                    program_.flow_filter.size()},
                   program_.flow_table.size(), NowTick(), program_.plan().flow_limits,
                   [](uint16_t) { return true; });
  }
  void TakeOutServerOf(uint16_t unit) {
    const auto server = static_cast<uint32_t>(spw_unit_server(unit));
    TakeOut(spw_unit_id(server, 0)), TakeOut(spw_unit_id(server, 1));
  }

  FlowSweeper sweeper_;
};

TEST_F(ForgedTest, ASynDoesNotMoveAnEstablishedFlowWithoutAnEntry) {
  const uint16_t unit = Syn(5000);
  EXPECT_EQ(Ack(5000), unit);
  AgeHalfOpen(SPW_HALF_OPEN_AGE + 1);
  AllCpusBusy(true);
  EXPECT_NE(Syn(5000, kForgedIsn), unit);
  EXPECT_EQ(Ack(5000, kIsn + 70'000), unit);
  EXPECT_EQ(Ack(5000, kIsn + 70'001), unit);
}

// A flow that uploads passes all numbers in half a minute, those of forged SYNs too.
TEST_F(ForgedTest, ASynDoesNotMoveAFlowWithoutAnEntryWhoseNumbersCatchUpWithIt) {
  for (const bool pressed : {false, true}) {
    SCOPED_TRACE(pressed ? "places are few: an entry is held for the handshake" : "");
    const uint16_t port = pressed ? 5001 : 5000, unit = Syn(port);
    EXPECT_EQ(Ack(port), unit);
    AgeHalfOpen(SPW_HALF_OPEN_AGE + 1);
    if (pressed) program_.MakePlacesFew();
    AllCpusBusy(true);
    for (const uint32_t isn : {kForgedIsn, kForgedIsn + (1u << 29), kForgedIsn + (1u << 30)})
      EXPECT_NE(Syn(port, isn), unit);
    AllCpusBusy(false);
    EXPECT_EQ(Ack(port, kIsn + 70'000), unit);
    for (const uint32_t isn : {kForgedIsn, kForgedIsn + (1u << 29), kForgedIsn + (1u << 30)})
      for (const uint32_t sent : {1u, 1000u, 60'000u}) EXPECT_EQ(Ack(port, isn + sent), unit);
  }
}

// As SYNs that the network holds up and delivers twice.
TEST_F(ForgedTest, ASynWithTheFlowsOwnNumberDoesNotMoveItWhileItsHandshakeIsKnown) {
  const uint16_t unit = Syn(5000);
  EXPECT_EQ(Ack(5000), unit);
  AllCpusBusy(true);
  EXPECT_EQ(Syn(5000), unit);
  EXPECT_EQ(Ack(5000, kIsn + 500), unit);
}

// The documented limit (docs/flood.md, "What is not guaranteed"): by then it may as well be a new connection.
TEST_F(ForgedTest, ASynWithTheFlowsOwnNumberMayMoveItsFirst128KiBOnceItsHandshakeIsForgotten) {
  const uint16_t unit = Syn(5000);
  EXPECT_EQ(Ack(5000), unit);
  AgeHalfOpen(SPW_HALF_OPEN_AGE + 1);
  AllCpusBusy(true);
  const uint16_t other = Syn(5000);
  EXPECT_NE(other, unit);
  EXPECT_EQ(Ack(5000, kIsn + 500), other);
}

TEST_F(ForgedTest, ASynDoesNotMoveAFlowOfAFailingUnit) {
  const uint16_t unit = Syn(5000);
  EXPECT_EQ(Ack(5000), unit);
  TakeOutServerOf(unit);
  EXPECT_NE(Syn(5000, kForgedIsn), unit);
  EXPECT_EQ(Ack(5000, kIsn + 70'000), unit);
}

TEST_F(ForgedTest, ASynInTheMiddleOfAHandshakeDoesNotBreakIt) {
  AllCpusBusy(true);
  const uint16_t unit = Syn(5000);
  AllCpusBusy(false);
  for (uint32_t i = 0; i < 100; i++) Syn(5000, kForgedIsn + (i << 20));
  EXPECT_EQ(Ack(5000), unit);
  EXPECT_EQ(Ack(5000, kIsn + 500), unit);
}

TEST_F(ForgedTest, SynsBeforeAHandshakeDoNotBreakIt) {
  AllCpusBusy(true);
  for (uint32_t i = 0; i < 20; i++) Syn(5000, kForgedIsn + (i << 20));
  const uint16_t unit = Syn(5000);
  for (uint32_t i = 0; i < 20; i++) Syn(5000, kForgedIsn + (i << 21) + (1 << 20));
  EXPECT_EQ(Ack(5000), unit);
  EXPECT_EQ(Ack(5000, kIsn + 500), unit);
}

TEST_F(ForgedTest, FinAndThenSynDoNotMoveAFlow) {
  const uint16_t unit = Deviating(5000);
  Tcp(5000, kFin | kAck, kForgedIsn);
  AgeHalfOpen(SPW_HALF_OPEN_AGE + 1);
  Syn(5000, kForgedIsn);
  EXPECT_EQ(Ack(5000, kIsn + 9), unit);
}

TEST_F(ForgedTest, APortUsedAgainIsANewFlow) {
  const uint16_t unit = Deviating(5000);
  Tcp(5000, kFin | kAck, kIsn + 1);
  const uint16_t again = Syn(5000, kForgedIsn);
  EXPECT_EQ(again, Slot(5000).owner) << "the policy decides anew";
  EXPECT_NE(again, unit);
  EXPECT_EQ(Ack(5000, kForgedIsn + 1), again) << "and the handshake moves the flow";
  EXPECT_EQ(Ack(5000, kForgedIsn + 500), again);
  EXPECT_EQ(FlowEntries(), 0u);
  AllCpusBusy(true);
  const uint16_t third = Syn(5000, 0x11110000);
  EXPECT_EQ(Ack(5000, 0x11110001), third);
  EXPECT_EQ(Ack(5000, 0x11110500), third);
}

// Without knowledge of the flow's sequence numbers nobody closes it, so the SYN that comes then is not
// believed.
TEST_F(ForgedTest, RstSynAndAckDoNotMoveAFlowThatHasAnEntry) {
  for (uint8_t flags : {kFin | kAck, kRst + 0}) {
    const auto port = static_cast<uint16_t>(5000 + flags);
    const uint16_t unit = Deviating(port);
    for (uint32_t i = 0; i < 50; i++) {
      const uint32_t isn = kForgedIsn + (i << 20);
      Tcp(port, flags, isn + 7);
      EXPECT_EQ(Syn(port, isn), unit);
      Ack(port, isn + 1), Tcp(port, kAck, isn + 1, 100);
      Tcp(port, flags, isn + 101);  // which closes, as far as anybody can see, what was just opened
    }
    EXPECT_EQ(Ack(port, kIsn + 9), unit);
    EXPECT_EQ(Tcp(port, kAck, kIsn + 9, 100), unit);
  }
}

TEST_F(ForgedTest, ASynBeforeTheHandshakeDoesNotMoveAFlowLater) {
  for (uint8_t flags : {kFin | kAck, kRst + 0}) {
    const auto port = static_cast<uint16_t>(5000 + flags);
    AllCpusBusy(false);
    Syn(port, kForgedIsn);
    const uint16_t unit = Deviating(port);
    Tcp(port, flags, kForgedIsn + 1);
    Ack(port, kForgedIsn + 1);
    EXPECT_EQ(Ack(port, kIsn + 9), unit);
  }
}

// Nobody can tell how the connection before ended: for the closing time its unit gets the SYN, and only then
// the policy decides.
TEST_F(ForgedTest, APortUsedAgainAfterADoubtfulCloseWaitsForTheClosingTime) {
  const uint16_t unit = Deviating(5000);
  Tcp(5000, kRst, kForgedIsn);
  AgeFlows(50);
  EXPECT_EQ(Syn(5000, 0x11110000), unit);
  EXPECT_EQ(Ack(5000, 0x11110001), unit);
  Tcp(5000, kRst, kForgedIsn);
  AgeFlows(60);
  const uint16_t again = Syn(5000, 0x22220000);
  EXPECT_NE(again, unit);
  EXPECT_EQ(Ack(5000, 0x22220001), again);
  EXPECT_EQ(Ack(5000, 0x22220500), again);
}

// A connection that is opened where the one before was closed may be silent for as long as any other.
TEST_F(ForgedTest, APortUsedAgainIsAFlowOfItsOwnRight) {
  Deviating(5000);
  Tcp(5000, kFin | kAck, kIsn + 1);
  AllCpusBusy(true);
  const uint16_t unit = Syn(5000, kForgedIsn);
  EXPECT_EQ(Ack(5000, kForgedIsn + 1), unit);
  for (uint16_t port = 1000; port < 1600; port++) Deviating(port);  // closing entries end now
  AgeFlows(100);
  Sweep(), Sweep();
  EXPECT_EQ(Ack(5000, kForgedIsn + 1), unit);
}

TEST_F(ForgedTest, AClientThatTriesAgainWithAnotherNumberConnects) {
  AllCpusBusy(true);
  const uint16_t unit = Syn(5000);  // refused by the unit
  EXPECT_EQ(Syn(5000, kForgedIsn), unit);
  EXPECT_EQ(Ack(5000, kForgedIsn + 1), unit);
}

TEST_F(ForgedTest, FinOrRstDoesNotEndAnIdleFlow) {
  for (uint8_t flags : {kFin | kAck, kRst + 0}) {
    const auto port = static_cast<uint16_t>(5000 + flags);
    const uint16_t unit = Deviating(port);
    Tcp(port, flags, kForgedIsn);
    AgeFlows(62);
    Sweep(), Sweep();
    EXPECT_EQ(Ack(port), unit);
  }
}

// The documented limit (docs/flood.md, "What is not guaranteed"): where more than a 64th of the table is in
// use, a flow that was closed, by whomever, and is then silent for a minute gives its place back.
TEST_F(ForgedTest, FinOrRstEndsAFlowThatIsThenSilentWhereTheTableIsInUse) {
  uint32_t others = program_.flow_buckets() * SPW_BUCKET_ENTRIES / 32;
  for (uint32_t i = 0; i < others; i++)
    program_.flow_table[i * program_.flow_buckets() / others].entry[SPW_BUCKET_ENTRIES - 1] =
        spw_flow_entry(0x1000000 + i, 0, SPW_FLOW_OPEN, NowTick());
  for (uint8_t flags : {kFin | kAck, kRst + 0}) {
    const auto silent = static_cast<uint16_t>(5000 + flags), goes_on = static_cast<uint16_t>(6000 + flags);
    Deviating(silent), Deviating(goes_on);
    Tcp(silent, flags, kForgedIsn), Tcp(goes_on, flags, kForgedIsn);
    Tcp(goes_on, kAck, kIsn + 1, 100);
    AgeFlows(62);
    Sweep(), Sweep();
    EXPECT_EQ(FlowEntry(FlowHash(silent)), nullptr);
    EXPECT_NE(FlowEntry(FlowHash(goes_on)), nullptr);
  }
}

TEST_F(ForgedTest, DataAfterFinOpensTheFlowAgain) {
  const uint16_t unit = Deviating(5000);
  Tcp(5000, kFin | kAck, kForgedIsn);
  EXPECT_EQ(spw_entry_state(*FlowEntry(FlowHash(5000))), SPW_FLOW_CLOSING);
  EXPECT_EQ(Ack(5000), unit);
  EXPECT_EQ(spw_entry_state(*FlowEntry(FlowHash(5000))), SPW_FLOW_CLOSING) << "the last ACK of a close";
  EXPECT_EQ(Tcp(5000, kAck, kIsn + 1, 100), unit);
  EXPECT_EQ(spw_entry_state(*FlowEntry(FlowHash(5000))), SPW_FLOW_OPEN);
  Tcp(5000, kFin | kAck, kForgedIsn);
  AgeFlows(3);
  EXPECT_EQ(Ack(5000), unit) << "half closed: the client only acknowledges";
  EXPECT_EQ(spw_entry_state(*FlowEntry(FlowHash(5000))), SPW_FLOW_OPEN);
}

// 20 stray ACKs a second, for longer than the idle time after which a moved slot settles.
TEST_F(ForgedTest, StrayPacketsDoNotKeepAMovedSlotFromSettling) {
  const uint16_t owner = Syn(5000);
  EXPECT_EQ(Ack(5000), owner);
  spw_ring_slot& slot = Slot(5000);
  slot.next = spw_unit_id(spw_unit_server(owner), 1);
  constexpr uint32_t kIdle = 100;
  const uint32_t begun = NowTick() - kIdle + 2;
  slot.entryless_tick = spw_slot_tick(begun);
  EXPECT_EQ(Ack(5000), owner) << "an established flow of the slot, seen while it was moved";
  Tcp(5000, kRst, kForgedIsn), Tcp(5000, kFin | kAck, kForgedIsn);
  Ack(5000, kForgedIsn);
  // Until its owner has been given up, and a little longer.
  const auto settle = [&](uint32_t tick) {
    RingMoves moves;
    SettleRing(&slot, 1, moves, tick, {kIdle, 3600, 0}, [](uint16_t) { return true; });
  };
  settle(begun + kIdle);
  EXPECT_EQ(slot.owner, owner);
  settle(begun + kIdle + 1);
  EXPECT_EQ(slot.owner, slot.next);
  EXPECT_EQ(Ack(5000), owner) << "the established flow stays";
}

TEST_F(ForgedTest, StrayFinsAndRstsLeaveNothingBehindOnAMovedSlot) {
  for (uint16_t port = 5000; port < 5100; port++) {
    spw_ring_slot& slot = Slot(port);
    slot.next = spw_unit_id(spw_unit_server(slot.owner), 1);
    slot.entryless_tick = 7;
    Tcp(port, kRst, kForgedIsn), Tcp(port, kFin | kAck, kForgedIsn);
    EXPECT_EQ(slot.entryless_tick, 7);
  }
  EXPECT_EQ(FlowEntries(), 0u);
}

// A SYN that comes again is not bound to a unit that no longer takes new flows, whoever said so.
TEST_F(ForgedTest, ARepeatedSynLeavesAUnitThatTakesNoNewFlows) {
  for (bool deviates : {false, true}) {
    for (int how = 0; how < 3; how++) {
      SwitchTest::SetUp();
      AllCpusBusy(deviates);
      const uint16_t unit = Syn(5000);
      if (how == 0) SetStatus(unit, SPW_UNIT_DRAINING);  // ejected, or without a way to it
      if (how == 1) TakeOut(unit);
      if (how == 2) SetStatus(unit, SPW_UNIT_DRAINING), program_.units[unit].resolved = 0;
      const uint16_t again = Syn(5000);
      EXPECT_NE(again, unit) << how;
      EXPECT_EQ(Ack(5000), again) << how << ": the handshake is completed where it began";
      EXPECT_EQ(Ack(5000, kIsn + 500), again) << how;
    }
  }
}

// A port is used again while the entry of the connection before lives, whose unit takes no new flows.
TEST_F(ForgedTest, ASynLeavesAnEntryWhoseUnitTakesNoNewFlows) {
  for (int how = 0; how < 4; how++) {
    SwitchTest::SetUp();
    const uint16_t unit = Deviating(5000);
    AgeFlows(3);
    if (how == 0) SetStatus(unit, SPW_UNIT_DRAINING);  // ejected, or without a way to it
    if (how == 1) TakeOut(unit);
    if (how == 2) program_.units[unit].resolved = 0;
    if (how == 3) Tcp(5000, kRst, kForgedIsn), SetStatus(unit, SPW_UNIT_DRAINING);
    if (how < 2) {
      EXPECT_NE(Syn(5000, kForgedIsn), unit) << how;
      EXPECT_EQ(Tcp(5000, kAck, kIsn + 9, 10), unit) << "the SYN alone moves nothing";
      AgeFlows(3);
    }
    const uint16_t again = Syn(5000, 0x11110000);
    EXPECT_NE(again, unit) << how;
    EXPECT_EQ(Ack(5000, 0x11110001), again) << how;
    EXPECT_EQ(Ack(5000, 0x11110500), again) << how;
  }
}

TEST_F(ForgedTest, ASynDoesNotLeaveALivelyFlowOfADrainingUnit) {
  const uint16_t unit = Deviating(5000);
  SetStatus(unit, SPW_UNIT_DRAINING);
  EXPECT_EQ(Syn(5000, kForgedIsn), unit);
  Ack(5000, kForgedIsn + 1);
  EXPECT_EQ(Ack(5000, kIsn + 9), unit);
}

// The table filled by somebody's datagrams: new flows go to their slot's owner and stay there.
TEST_F(ForgedTest, AFlowThatBeganWithoutRoomForItStaysWhenThereIsRoom) {
  AllCpusBusy(true);
  Bytes datagram = Eth().Ip4(kClient, kVip).Udp(1, 80).Payload(4);
  for (uint32_t i = 0; i < 100'000; i++) {
    for (int b = 0; b < 4; b++)
      datagram[26 + static_cast<size_t>(b)] = static_cast<uint8_t>((0x0b000000u + i) >> (24 - 8 * b));
    ASSERT_EQ(Run(datagram).verdict, XDP_TX);
  }
  std::map<uint16_t, uint16_t> flows;
  for (uint16_t port = 1000; port < 1200; port++) {
    AllCpusBusy(port % 2);
    flows[port] = Datagram(port);
  }
  AgeFlows(70), Sweep();  // the flood is over
  for (int round = 0; round < 3; round++) {
    for (const auto& [port, unit] : flows) {
      AllCpusBusy(port % 3 == 0);
      ASSERT_EQ(Datagram(port), unit) << port << " round " << round;
    }
  }
}

}  // namespace
}  // namespace spillway::switching

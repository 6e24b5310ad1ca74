// SPDX-License-Identifier: Apache-2.0
// UDP: flows with affinity have an entry from their first packet on; without, each packet decides.
#include <linux/bpf.h>

#include <map>
#include <set>

#include "switch_program.h"

namespace spillway::switching {
namespace {

class UdpTest : public SwitchTest {
 protected:
  uint16_t Datagram(uint16_t port) {
    return Sent(Eth().Ip4(kClient, "203.0.113.10").Udp(port, 80).Payload(4));
  }
  uint16_t Query(uint16_t port) { return Sent(Eth().Ip4(kClient, "203.0.113.53").Udp(port, 53).Payload(4)); }
};

TEST_F(UdpTest, TheFirstPacketDecidesForTheFlow) {
  std::map<uint16_t, uint16_t> flows;
  for (uint16_t port = 1000; port < 1200; port++) {
    AllCpusBusy(port % 2);
    flows[port] = Datagram(port);
  }
  EXPECT_EQ(FlowEntries(), 200u);
  EXPECT_EQ(Counted(), (Counts{{"packets_forwarded", 200}, {"new_flows", 200}, {"flows_inserted", 200}}));
  for (auto [port, unit] : flows) {
    AllCpusBusy(port % 3 == 0);
    ASSERT_EQ(Datagram(port), unit);
  }
  EXPECT_EQ(Counted(), (Counts{{"packets_forwarded", 200}, {"placed_by_entry", 200}}));
}

TEST_F(UdpTest, AFlowUnseenForItsIdleTimeDecidesAnew) {
  AllCpusBusy(true);
  uint16_t unit = Datagram(1000);
  EXPECT_EQ(Datagram(1000), unit);
  AllCpusBusy(false);
  uint16_t idle_ticks = Service("203.0.113.10", 80, 17).idle_ticks;
  AgeFlows(idle_ticks - 2u);
  EXPECT_EQ(Datagram(1000), unit);
  AgeFlows(idle_ticks + 2u);
  EXPECT_NE(Datagram(1000), unit);
  EXPECT_EQ(FlowEntries(), 1u);
}

// Probation stamps an entry in the past by the table's longest limit; a service with a shorter idle
// time must still know its own flow by the second packet.
TEST_F(UdpTest, ANeighbourServiceWithALongIdleTimeDoesNotCutFlowsShort) {
  model::Config config = TestConfig();
  config.services[2].idle_s = 3600;  // edge; web keeps 60 s
  program_.Reset();
  program_.Apply(config);
  for (uint16_t port = 1000; port < 1100; port++) {
    AllCpusBusy(true);
    uint16_t unit = Datagram(port);
    AllCpusBusy(false);
    ASSERT_EQ(Datagram(port), unit) << "an established flow changed its unit";
  }
}

TEST_F(UdpTest, ADeadUnitsFlowIsPlacedAnewAndCounted) {
  AllCpusBusy(true);
  uint16_t unit = Datagram(1000);
  AllCpusBusy(false);
  SetStatus(unit, SPW_UNIT_DOWN);
  Counted();
  uint16_t next = Datagram(1000);
  EXPECT_NE(next, unit);
  EXPECT_EQ(
      Counted(),
      (Counts{{"packets_forwarded", 1}, {"new_flows", 1}, {"flows_replaced", 1}, {"flows_inserted", 1}}));
  EXPECT_EQ(Datagram(1000), next);
}

TEST_F(UdpTest, ADrainingUnitKeepsItsFlows) {
  uint16_t unit = Datagram(1000);
  SetStatus(unit, SPW_UNIT_DRAINING);
  EXPECT_EQ(Datagram(1000), unit);
  for (uint16_t port = 2000; port < 2300; port++) ASSERT_NE(Datagram(port), unit);
}

// Where there was no place for a flow's entry, flows beside it that have none stay on their owner, too, as
// they may be established: but not while the owner does not answer, and only those of the same service.
class RefusedDatagrams : public UdpTest {
 protected:
  static constexpr const char* kOther = "203.0.113.20";
  uint16_t To(const char* vip, uint16_t port, uint16_t service_port) {
    return Sent(Eth().Ip4(kClient, vip).Udp(port, service_port).Payload(4));
  }
  void FillTable() {
    const auto tick = NowTick();
    for (uint32_t b = 0; b < program_.flow_table.size(); b++)
      for (uint32_t i = 0; i < SPW_BUCKET_ENTRIES; i++)
        program_.flow_table[b].entry[i] = spw_flow_entry(0x7fff0000u + b * 8 + i, 1, SPW_FLOW_OPEN, tick);
  }
  void EmptyTable() {
    for (uint32_t b = 0; b < program_.flow_table.size(); b++) program_.flow_table[b] = {};
  }
  spw_ring_slot& Slot(uint16_t port) {
    return SlotOf(Service("203.0.113.10", 80, 17), Hash(kClient, "203.0.113.10", port, 80, 17));
  }
  // All of the service's marks are fresh.
  void Refuse() {
    FillTable();
    for (uint16_t port = 10'000; port < 60'000; port++) Datagram(port);
    EmptyTable();
    Counted();
  }
};

TEST_F(RefusedDatagrams, StayOnTheirOwner) {
  Refuse();
  AllCpusBusy(true);
  for (uint16_t port = 1000; port < 1200; port++) ASSERT_EQ(Datagram(port), Slot(port).owner);
}

TEST_F(RefusedDatagrams, LeaveAnOwnerThatDoesNotAnswer) {
  Refuse();
  const uint16_t s1 = Id("four", "s1", "cpu");
  TakeOut(s1), TakeOut(Id("four", "s1", "nic"));
  for (uint16_t port = 1000; port < 1200; port++)
    ASSERT_NE(spw_unit_server(Datagram(port)), spw_unit_server(s1)) << port;
}

TEST_F(RefusedDatagrams, AreOfOneServiceAlone) {
  Refuse();
  AllCpusBusy(true);
  int off_the_ring = 0;
  for (uint16_t port = 1000; port < 1200; port++) off_the_ring += spw_unit_index(To(kOther, port, 443)) == 1;
  EXPECT_EQ(off_the_ring, 200);
}

TEST_F(RefusedDatagrams, StayOnAMovedSlotWhileTheyGoOn) {
  FillTable();
  const uint16_t owner = Datagram(1000);
  spw_ring_slot& slot = Slot(1000);
  slot.next = spw_unit_id(spw_unit_server(owner), 1);
  for (int step = 0; step < 6; step++) {  // of half an idle time
    AgeRefusedMarks(30);
    ASSERT_EQ(Datagram(1000), owner) << step;
  }
  EmptyTable();
  AgeRefusedMarks(30);
  EXPECT_EQ(Datagram(1000), owner);
}

TEST_F(UdpTest, WithoutAffinityEachPacketDecidesAndNothingIsKept) {
  AllCpusBusy(false);
  uint16_t cpu = Query(1000);
  EXPECT_EQ(spw_unit_index(cpu), 0u);
  AllCpusBusy(true);
  EXPECT_EQ(spw_unit_index(Query(1000)), 1u) << "the very next packet";
  EXPECT_EQ(FlowEntries(), 0u);
  EXPECT_EQ(Counted(), (Counts{{"packets_forwarded", 2}, {"new_flows", 2}}));
}

TEST_F(UdpTest, ChoicesAreCountedAsAssignedUntilTheNextReport) {
  std::map<uint16_t, uint32_t> expected;
  auto assigned = [&](uint16_t unit) {
    return program_.servers[spw_unit_server(unit)].load[spw_unit_index(unit)].assigned;
  };
  for (int i = 0; i < 10; i++) {
    uint16_t unit = Query(1000);
    if (!expected.contains(unit)) expected[unit] = assigned(unit) - 1;
    expected[unit]++;
  }
  for (auto [unit, count] : expected) EXPECT_EQ(assigned(unit), count);
}

TEST_F(UdpTest, OneSocketsQueriesWithoutAffinityReachEveryServer) {
  std::map<uint32_t, int> queries;
  for (int i = 0; i < 100; i++) queries[spw_unit_server(Query(1000))]++;
  EXPECT_GT(queries.size(), 1u);
}

TEST_F(UdpTest, V6FlowsHaveAffinityToo) {
  Bytes packet = Eth().Ip6("2001:db8:c::7", "2001:db8:ff::10").Udp(1000, 80).Payload(4);
  AllCpusBusy(true);
  uint16_t unit = Sent(packet);
  AllCpusBusy(false);
  EXPECT_EQ(Sent(packet), unit);
  EXPECT_EQ(spw_unit_index(unit), 1u);
}

TEST_F(UdpTest, AServerWithoutAUnitPassesItsFlowsOnUntilTheRingIsLaidAnew) {
  uint16_t s1cpu = Id("four", "s1", "cpu"), s1nic = Id("four", "s1", "nic");
  for (uint16_t id : {s1cpu, s1nic})
    program_.servers[spw_unit_server(id)].unit[spw_unit_index(id)].status = SPW_UNIT_DRAINING;
  for (uint16_t port = 1000; port < 1400; port++) {
    const uint16_t unit = Sent(Eth().Ip4(kClient, "203.0.113.53").Udp(port, 53).Payload(4));
    ASSERT_EQ(spw_unit_server(unit), spw_unit_server(Id("four", "s2", "cpu")));
  }
  Counts counts = Counted();
  EXPECT_NEAR(static_cast<double>(counts["flows_diverted"]), 200, 60);
  EXPECT_EQ(counts["fail_open"], 0u) << "nobody fails";
}

}  // namespace
}  // namespace spillway::switching

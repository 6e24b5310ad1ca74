// SPDX-License-Identifier: Apache-2.0
// Failing units in the data plane: from the agent's report to where new flows go, and what stays.
#include <linux/bpf.h>

#include <cstring>
#include <map>
#include <set>

#include "packet_kinds.h"
#include "switch_program.h"

namespace spillway::switching {
namespace {

class HealthTest : public SwitchTest {
 protected:
  void SetUp() override {
    SwitchTest::SetUp();
    for (const char* server : {"s1", "s2"})
      for (const char* unit : {"cpu", "nic"}) ids_[std::string(server) + unit] = Id("four", server, unit);
    Counted();
  }
  void SetPolicy(const char* vip, uint16_t port, uint8_t proto, spw_unit_policy policy) {
    Service(vip, port, proto).unit_policy = static_cast<uint8_t>(policy);
  }
  void Says(uint16_t id, uint8_t flags) {
    spw_report report{};
    report.server = static_cast<uint16_t>(spw_unit_server(id));
    report.unit = static_cast<uint8_t>(spw_unit_index(id));
    report.boot_id = 1;
    report.sequence = ++sequence_;
    report.flags = flags;
    const spw_siphash_key key = program_.ReadKey(report.server).key;
    spw_report_wire wire;
    spw_report_encode(&wire, &report, &key);
    const auto* bytes = reinterpret_cast<const uint8_t*>(&wire);
    EXPECT_EQ(Run(ReportPacket(Bytes(bytes, bytes + sizeof(wire)))).verdict, XDP_DROP);
  }
  // Units that new flows of the service go to, one query each.
  std::map<uint16_t, int> Queries(int count) {
    std::map<uint16_t, int> seen;
    for (int i = 0; i < count; i++)
      seen[Sent(Eth().Ip4(kClient, "203.0.113.53").Udp(static_cast<uint16_t>(1000 + i), 53).Payload(4))]++;
    return seen;
  }
  uint16_t Syn(uint16_t port) { return Sent(Eth().Ip4(kClient, "203.0.113.10").Tcp(port, 80).Syn()); }
  uint16_t Ack(uint16_t port) { return Sent(Eth().Ip4(kClient, "203.0.113.10").Tcp(port, 80)); }

  std::map<std::string, uint16_t> ids_;
  uint32_t sequence_ = 0;
};

TEST_F(HealthTest, AReportThatSaysFailingTakesTheUnitOutAndTheNextBrings) {
  const uint16_t cpu = ids_["s1cpu"];
  Says(cpu, SPW_REPORT_FAILING);
  HealthOfUnit(cpu).out_beat -= 1 << 20;  // long ago: probes are rare
  WithoutProbes(cpu);
  EXPECT_EQ(ServerOf(cpu).failing, 1u << spw_unit_index(cpu));
  EXPECT_EQ(program_.pools[ServerOf(cpu).pool].out, 1u);
  EXPECT_EQ(Queries(200).count(cpu), 0u);
  Says(cpu, 0);
  EXPECT_EQ(ServerOf(cpu).failing, 0u);
  EXPECT_EQ(program_.pools[ServerOf(cpu).pool].out, 0u);
  EXPECT_GT(Queries(200)[cpu], 50);
}

TEST_F(HealthTest, NoMoreThanHalfOfThePoolAndTheRestIsCounted) {
  for (const char* unit : {"s1cpu", "s2cpu", "s1nic"}) Says(ids_[unit], SPW_REPORT_FAILING);
  Counts counts = Counted();
  EXPECT_EQ(counts["failing_kept"], 1u);
  EXPECT_EQ(program_.pools[ServerOf(ids_["s1cpu"]).pool].out, 2u);
  EXPECT_EQ(ServerOf(ids_["s1nic"]).failing & 2, 0u);
  // The other pool is another's business.
  Says(Id("six", "s1", "cpu"), SPW_REPORT_FAILING);
  EXPECT_EQ(program_.pools[ServerOf(Id("six", "s1", "cpu")).pool].out, 1u);
}

TEST_F(HealthTest, UnderEveryPolicyAFailingUnitGetsNothing) {
  const uint16_t cpu = ids_["s1cpu"];
  TakeOut(cpu);
  for (int policy = 0; policy < SPW_UNIT_POLICIES; policy++) {
    for (uint8_t server_policy : {SPW_SERVER_MAGLEV, SPW_SERVER_P2C}) {
      SetPolicy("203.0.113.53", 53, 17, static_cast<spw_unit_policy>(policy));
      Service("203.0.113.53", 53, 17).server_policy = server_policy;
      const auto seen = Queries(300);
      EXPECT_EQ(seen.count(cpu), 0u) << policy;
      EXPECT_GE(seen.size(), 1u);
    }
  }
}

TEST_F(HealthTest, AServerThatOnlyFailsPassesItsNewFlowsOn) {
  for (int policy = 0; policy < SPW_UNIT_POLICIES; policy++) {
    SwitchTest::SetUp();
    SetPolicy("203.0.113.53", 53, 17, static_cast<spw_unit_policy>(policy));
    for (const char* unit : {"s1cpu", "s1nic"}) TakeOut(ids_[unit]);
    Counted();
    const auto seen = Queries(2000);
    int probes = 0;  // a machine that stands still for a quarter of a second lets one through
    for (const auto& [id, count] : seen)
      if (spw_unit_server(id) != spw_unit_server(ids_["s2cpu"])) probes += count;
    EXPECT_LE(probes, 2) << policy;
    Counts counts = Counted();
    EXPECT_EQ(counts.count("fail_open"), 0u) << policy;
    EXPECT_EQ(counts.count("dropped_no_unit"), 0u) << policy;
    EXPECT_NEAR(static_cast<double>(counts["flows_diverted"]), 1000, 200) << policy;
  }
}

TEST_F(HealthTest, WhenAllFailFlowsGoAsIfNoneDidAndAreCounted) {
  const auto before = Queries(500);
  for (auto& [name, id] : ids_) TakeOut(id);
  Counted();
  const auto seen = Queries(500);
  Counts counts = Counted();
  EXPECT_EQ(counts["fail_open"], 500u);
  EXPECT_EQ(counts.count("dropped_no_unit"), 0u);
  EXPECT_EQ(seen.size(), before.size());
}

TEST_F(HealthTest, AFailingUnitIsProbedOnceWhenItsTimeHasCome) {
  const uint16_t cpu = ids_["s1cpu"];
  TakeOut(cpu);
  EXPECT_EQ(Queries(300).count(cpu), 0u);
  LetProbe();
  HealthOfUnit(cpu).probe_beat = NowBeat() - SPW_PROBE_BEATS_MAX - SPW_BEAT_LAG;
  EXPECT_EQ(Queries(300)[cpu], 1);
}

TEST_F(HealthTest, EstablishedFlowsStayOnAFailingUnit) {
  std::map<uint16_t, uint16_t> flows;
  for (uint16_t port = 1000; port < 1300; port++) {
    AllCpusBusy(port % 2);  // half of them on a unit that the ring does not name
    flows[port] = Syn(port);
    ASSERT_EQ(Ack(port), flows[port]);
  }
  AllCpusBusy(false);
  for (auto& [name, id] : ids_) TakeOut(id);
  for (const auto& [port, unit] : flows) ASSERT_EQ(Ack(port), unit);
}

TEST_F(HealthTest, DatagramFlowsStayToo) {
  std::map<uint16_t, uint16_t> flows;
  const auto datagram = [&](uint16_t port) {
    return Sent(Eth().Ip4(kClient, "203.0.113.10").Udp(port, 80).Payload(4));
  };
  for (uint16_t port = 1000; port < 1100; port++) flows[port] = datagram(port);
  for (const char* unit : {"s1cpu", "s1nic"}) TakeOut(ids_[unit]);
  for (const auto& [port, unit] : flows) ASSERT_EQ(datagram(port), unit);
}

TEST_F(HealthTest, ARepeatedSynOfAFailingUnitBeginsElsewhere) {
  std::map<uint16_t, uint16_t> flows;
  for (uint16_t port = 1000; port < 1200; port++) flows[port] = Syn(port);
  for (const char* unit : {"s1cpu", "s1nic"}) TakeOut(ids_[unit]);
  size_t moved = 0;
  for (const auto& [port, unit] : flows) {
    const uint16_t again = Syn(port);
    if (spw_unit_server(unit) == spw_unit_server(ids_["s1cpu"])) {
      EXPECT_NE(spw_unit_server(again), spw_unit_server(unit));
      EXPECT_EQ(Ack(port), again) << "the handshake is completed where it began";
      moved++;
    } else {
      EXPECT_EQ(again, unit);
    }
  }
  EXPECT_GT(moved, 50u);
}

TEST_F(HealthTest, AHeavyServersFlowsFindTheLightOneByItsDeputy) {
  // All slots but one in a thousand name s1.
  const spw_endpoint& service = Service("203.0.113.53", 53, 17);
  for (uint32_t i = 0; i < service.ring_slots; i++) {
    const uint16_t unit = ids_[i % 1000 == 0 ? "s2cpu" : "s1cpu"];
    program_.ring_slots[service.ring_offset + i] = {unit, unit, 0, 0};
  }
  for (const char* unit : {"s1cpu", "s1nic"}) TakeOut(ids_[unit]);
  ServerOf(ids_["s1cpu"]).deputy = 1u + ids_["s2cpu"];
  Counted();
  const auto seen = Queries(500);
  EXPECT_EQ(seen.count(ids_["s1cpu"]) + seen.count(ids_["s1nic"]), 0u);
  EXPECT_EQ(Counted().count("fail_open"), 0u);
}

TEST_F(HealthTest, TheWordOfASilentAgentIsVoid) {
  const uint16_t cpu = ids_["s1cpu"];
  TakeOut(cpu);
  ServerOf(cpu).silent_beats = 10;
  ServerOf(cpu).load[spw_unit_index(cpu)].report_beat = NowBeat() - 100;
  SetPolicy("203.0.113.53", 53, 17, SPW_UNIT_HOST_ONLY);
  EXPECT_GT(Queries(300)[cpu], 50);
}

}  // namespace
}  // namespace spillway::switching

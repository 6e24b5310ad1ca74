// SPDX-License-Identifier: Apache-2.0
// What leaves for a unit: which bytes change and which do not, in both modes and both families.
#include <linux/bpf.h>

#include "checksums.h"
#include "switch_program.h"

namespace spillway::switching {
namespace {

// What forwarding by hand would have made of `in`, byte by byte; checksums aside, since they are
// recomputed by the checker.
void ExpectOnlyThese(const Bytes& in, const Bytes& out, const spw_unit& unit, bool nat) {
  ASSERT_EQ(in.size(), out.size());
  Layout at = FindLayers(in);
  size_t address_bytes = at.family == 4 ? 4 : 16;
  size_t ttl = at.family == 4 ? at.ip + 8 : at.ip + 7;
  size_t destination = at.family == 4 ? at.ip + 16 : at.ip + 24;
  size_t transport_check = at.transport + (at.protocol == 6 ? 16 : 6);
  for (size_t i = 0; i < in.size(); i++) {
    if (i < 6) {
      ASSERT_EQ(out[i], unit.mac[i]);
    } else if (i < 12) {
      ASSERT_EQ(out[i], unit.own_mac[i - 6]);
    } else if (i == ttl) {
      ASSERT_EQ(out[i], in[i] - 1);
    } else if (nat && i >= destination && i < destination + address_bytes) {
      ASSERT_EQ(out[i], reinterpret_cast<const uint8_t*>(unit.addr)[i - destination]);
    } else if (at.family == 4 && (i == at.ip + 10 || i == at.ip + 11)) {
      continue;  // the header checksum
    } else if (nat && (i == transport_check || i == transport_check + 1)) {
      continue;
    } else {
      ASSERT_EQ(out[i], in[i]) << "byte " << i;
    }
  }
}

class ForwardTest : public SwitchTest {
 protected:
  void Check(const Bytes& packet, bool nat) {
    Counted();
    ASSERT_EQ(WrongChecksums(packet), "") << "the builder must be right first";
    Outcome out = Run(packet);
    ASSERT_EQ(out.verdict, XDP_TX);
    uint16_t id = UnitByMac(out.bytes);
    ASSERT_NE(id, SPW_NO_UNIT);
    ExpectOnlyThese(packet, out.bytes, program_.units[id], nat);
    EXPECT_EQ(WrongChecksums(out.bytes), "");
    EXPECT_EQ(Counted()["packets_forwarded"], 1u);
  }
};

TEST_F(ForwardTest, NatRewritesDestinationHopsAndChecksums) {
  for (size_t payload : {0, 1, 17, 1000}) {
    Check(Eth().Ip4("198.51.100.7", "203.0.113.10").Tcp(40000, 80).Payload(payload), true);
    Check(Eth().Ip4("198.51.100.7", "203.0.113.10").Udp(40000, 80).Payload(payload), true);
    Check(Eth().Ip6("2001:db8:c::7", "2001:db8:ff::10").Tcp(40000, 80).Payload(payload), true);
    Check(Eth().Ip6("2001:db8:c::7", "2001:db8:ff::10").Udp(40000, 80).Payload(payload), true);
  }
}

TEST_F(ForwardTest, DsrChangesOnlyMacsAndHops) {
  Check(Eth().Ip4("198.51.100.7", "203.0.113.20").Tcp(40000, 443).Payload(100), false);
  Check(Eth().Ip4("198.51.100.7", "203.0.113.20").Udp(40000, 443).Payload(100), false);
  Check(Eth().Ip6("2001:db8:c::7", "2001:db8:ff::20").Tcp(40000, 443).Payload(100), false);
  Check(Eth().Ip6("2001:db8:c::7", "2001:db8:ff::20").Udp(40000, 443).Payload(100), false);
  Check(Eth().Ip4("198.51.100.7", "203.0.113.53").Udp(40000, 53).Payload(30), false);
}

TEST_F(ForwardTest, ManyFlowsKeepTheirChecksumsRight) {
  for (uint16_t port = 1; port < 3000; port++) {
    Check(Eth()
              .Ip4("198.51.100.7", "203.0.113.10")
              .Ttl(static_cast<uint8_t>(2 + port % 254))
              .Udp(port, 80)
              .Payload(port % 7),
          true);
  }
}

TEST_F(ForwardTest, UpToTwoVlanTagsAreKept) {
  Check(Eth().Vlan(5).Ip4("198.51.100.7", "203.0.113.10").Tcp(40000, 80), true);
  Check(Eth().Vlan(7, 0x88a8).Vlan(5).Ip4("198.51.100.7", "203.0.113.10").Tcp(40000, 80), true);
  Check(Eth().Vlan(5).Ip6("2001:db8:c::7", "2001:db8:ff::10").Udp(40000, 80), true);
  Check(Eth().Vlan(7, 0x88a8).Vlan(5).Ip6("2001:db8:c::7", "2001:db8:ff::20").Udp(40000, 443), false);
}

TEST_F(ForwardTest, AThirdVlanTagIsForeign) {
  Bytes packet = Eth().Vlan(1).Vlan(2).Vlan(3).Ip4("198.51.100.7", "203.0.113.10").Tcp(40000, 80);
  Outcome out = Run(packet);
  EXPECT_EQ(out.verdict, XDP_PASS);
  EXPECT_EQ(out.bytes, packet);
  EXPECT_EQ(Counted(), (Counts{{"packets_passed", 1}}));
}

TEST_F(ForwardTest, Ipv4OptionsAreSteppedOver) {
  for (int words = 1; words <= 10; words++) {
    Check(Eth().Ip4("198.51.100.7", "203.0.113.10").Options(words).Tcp(40000, 80).Payload(9), true);
    Check(Eth().Ip4("198.51.100.7", "203.0.113.20").Options(words).Udp(40000, 443).Payload(9), false);
  }
}

TEST_F(ForwardTest, Ipv6ExtensionHeadersAreSteppedOver) {
  const uint8_t kHopByHop = 0, kRouting = 43, kDestination = 60;
  for (int words8 : {0, 1, 5}) {
    Check(
        Eth().Ip6("2001:db8:c::7", "2001:db8:ff::10").Extension(kHopByHop, words8).Tcp(40000, 80).Payload(3),
        true);
    Check(Eth()
              .Ip6("2001:db8:c::7", "2001:db8:ff::10")
              .Extension(kHopByHop, 0)
              .Extension(kRouting, words8)
              .Extension(kDestination, 1)
              .Udp(40000, 80)
              .Payload(3),
          true);
  }
}

// The same flow must meet the same unit whatever wraps it.
TEST_F(ForwardTest, TagsAndOptionsAreNoPartOfTheFlow) {
  for (uint16_t port = 1000; port < 1100; port++) {
    uint16_t plain = Sent(Eth().Ip4("198.51.100.7", "203.0.113.10").Tcp(port, 80));
    EXPECT_EQ(Sent(Eth().Vlan(9).Ip4("198.51.100.7", "203.0.113.10").Tcp(port, 80)), plain);
    EXPECT_EQ(Sent(Eth().Ip4("198.51.100.7", "203.0.113.10").Options(3).Tcp(port, 80)), plain);
  }
}

TEST_F(ForwardTest, AUdpChecksumOfZeroStaysZeroOverIpv4) {
  Bytes packet = Eth().Ip4("198.51.100.7", "203.0.113.10").Udp(40000, 80).NoUdpChecksum().Payload(20);
  Outcome out = Run(packet);
  ASSERT_EQ(out.verdict, XDP_TX);
  Layout at = FindLayers(out.bytes);
  EXPECT_EQ(out.bytes[at.transport + 6], 0);
  EXPECT_EQ(out.bytes[at.transport + 7], 0);
  EXPECT_EQ(WrongChecksums(out.bytes), "");
}

// RFC 768: a sum that comes out as 0 is sent as all ones. The payload's last word is chosen so that
// the rewritten packet sums to just that; then the checksum must be ffff, never 0 ("none").
TEST_F(ForwardTest, AUdpSumThatBecomesZeroIsSentAsAllOnes) {
  for (bool v6 : {false, true}) {
    int met = 0;
    Eth builder =
        v6 ? Eth().Ip6("2001:db8:c::7", "2001:db8:ff::10") : Eth().Ip4("198.51.100.7", "203.0.113.10");
    for (uint32_t word = 0; word < 0x10000 && met == 0; word++) {
      Bytes payload = {static_cast<uint8_t>(word >> 8), static_cast<uint8_t>(word)};
      Outcome out = Run(Eth(builder).Udp(40000, 80).Payload(payload));
      ASSERT_EQ(out.verdict, XDP_TX);
      Layout at = FindLayers(out.bytes);
      int check = out.bytes[at.transport + 6] << 8 | out.bytes[at.transport + 7];
      ASSERT_NE(check, 0) << word;
      if (check == 0xffff) met++;
      ASSERT_EQ(WrongChecksums(out.bytes), "");
    }
    EXPECT_EQ(met, 1) << "one of 65,536 payloads must come out as zero";
  }
}

TEST_F(ForwardTest, ADamagedPacketStaysDamaged) {
  Bytes packet = Eth().Ip4("198.51.100.7", "203.0.113.10").Tcp(40000, 80).Payload(20);
  packet.back() ^= 1;
  Outcome out = Run(packet);
  ASSERT_EQ(out.verdict, XDP_TX);
  EXPECT_EQ(WrongChecksums(out.bytes), "tcp ");
}

TEST_F(ForwardTest, APacketAtItsLastHopGoesToTheHostUntouched) {
  for (uint8_t ttl : {0, 1}) {
    for (const Bytes& packet :
         {Eth().Ip4("198.51.100.7", "203.0.113.10").Ttl(ttl).Tcp(40000, 80).Build(),
          Eth().Ip6("2001:db8:c::7", "2001:db8:ff::20").Ttl(ttl).Tcp(40000, 443).Build()}) {
      Counted();
      Outcome out = Run(packet);
      EXPECT_EQ(out.verdict, XDP_PASS);
      EXPECT_EQ(out.bytes, packet);
      EXPECT_EQ(Counted(), (Counts{{"packets_passed", 1}, {"placed_on_ring", 1}}));
    }
  }
}

TEST_F(ForwardTest, AUnitBehindAnotherInterfaceIsRedirectedTo) {
  for (uint32_t id = 0; id < 64; id++) program_.units[id].ifindex = 77;
  Outcome out = Run(Eth().Ip4("198.51.100.7", "203.0.113.10").Tcp(40000, 80));
  EXPECT_EQ(out.verdict, XDP_REDIRECT);
  EXPECT_EQ(WrongChecksums(out.bytes), "");
}

TEST_F(ForwardTest, NoUnitAndNoNextHopAreCountedDrops) {
  Bytes packet = Eth().Ip4("198.51.100.7", "203.0.113.10").Tcp(40000, 80);
  for (uint32_t id = 0; id < 64; id++) program_.units[id].resolved = 0;
  EXPECT_EQ(Run(packet).verdict, XDP_DROP);
  EXPECT_EQ(Counted(), (Counts{{"dropped_unresolved", 1}, {"placed_on_ring", 1}}));
  for (uint32_t id = 0; id < 64; id++) program_.units[id].alive = 0;
  EXPECT_EQ(Run(packet).verdict, XDP_DROP);
  EXPECT_EQ(Counted(), (Counts{{"dropped_no_unit", 1}, {"placed_on_ring", 1}}));
  for (const PlannedUnit& unit : program_.plan().units) SetStatus(unit.id, SPW_UNIT_DOWN);
  EXPECT_EQ(Run(Eth().Ip4("198.51.100.7", "203.0.113.10").Tcp(40000, 80).Syn()).verdict, XDP_DROP);
  EXPECT_EQ(Counted(), (Counts{{"dropped_no_unit", 1}, {"new_flows", 1}}));
}

TEST_F(ForwardTest, TrafficIsCountedByServiceAndUnit) {
  spw_endpoint service = Service("203.0.113.10", 80, 6);
  spw_traffic before = program_.ServiceTraffic(service.service);
  Bytes syn = Eth().Ip4("198.51.100.7", "203.0.113.10").Tcp(40001, 80).Syn();
  uint16_t id = Sent(syn);
  spw_traffic unit_before = program_.UnitTraffic(id);
  Bytes data = Eth().Ip4("198.51.100.7", "203.0.113.10").Tcp(40001, 80).Payload(100);
  ASSERT_EQ(Sent(data), id);
  spw_traffic after = program_.ServiceTraffic(service.service), unit_after = program_.UnitTraffic(id);
  EXPECT_EQ(after.packets - before.packets, 2u);
  EXPECT_EQ(after.bytes - before.bytes, syn.size() + data.size());
  EXPECT_EQ(after.new_flows - before.new_flows, 1u);
  EXPECT_EQ(unit_after.packets - unit_before.packets, 1u);
  EXPECT_EQ(unit_after.bytes - unit_before.bytes, data.size());
  EXPECT_EQ(unit_after.new_flows, unit_before.new_flows);
}

}  // namespace
}  // namespace spillway::switching

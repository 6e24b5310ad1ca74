// SPDX-License-Identifier: Apache-2.0
// ICMP errors follow the flow they quote, both ways, with every checksum right: outer, ICMP, quoted.
#include <linux/bpf.h>

#include <algorithm>

#include "checksums.h"
#include "switch_program.h"

namespace spillway::switching {
namespace {

class IcmpTest : public SwitchTest {
 protected:
  // The error that a router on the client's side sends about what the VIP sent.
  Bytes Error4(uint8_t type, uint8_t code, Eth quoted, const char* vip = "203.0.113.10") {
    return Eth().Ip4("198.51.100.1", vip).Icmp(type, code, 1400).Payload(quoted.Ip());
  }
  Bytes Quoted(const Bytes& frame, size_t offset, size_t bytes) {
    Layout at = FindLayers(frame);
    size_t start = at.transport + 8 + offset;
    return Bytes(frame.begin() + static_cast<long>(start), frame.begin() + static_cast<long>(start + bytes));
  }
  Bytes AddressOf(uint16_t id, size_t bytes) {
    const auto* words = reinterpret_cast<const uint8_t*>(program_.units[id].addr);
    return Bytes(words, words + bytes);
  }
};

TEST_F(IcmpTest, AnErrorFromTheClientsSideReachesTheUnitOfTheFlow) {
  for (uint16_t port = 40000; port < 40200; port++) {
    uint16_t unit = Sent(Eth().Ip4("198.51.100.7", "203.0.113.10").Tcp(port, 80));
    Counted();
    Bytes error = Error4(3, 4, Eth().Ip4("203.0.113.10", "198.51.100.7").Tcp(80, port).Payload(20));
    Outcome out = Run(error);
    ASSERT_EQ(out.verdict, XDP_TX);
    ASSERT_EQ(UnitByMac(out.bytes), unit);
    ASSERT_EQ(WrongChecksums(out.bytes), "");
    EXPECT_EQ(Quoted(out.bytes, 12, 4), AddressOf(unit, 4)) << "the unit knows the flow by its own address";
    EXPECT_EQ(Counted(), (Counts{{"icmp_forwarded", 1}}));
  }
}

TEST_F(IcmpTest, EveryErrorTypeIsFollowedAndNoOther) {
  Eth quoted = Eth().Ip4("203.0.113.10", "198.51.100.7").Udp(80, 40000).Payload(20);
  for (int type = 0; type < 256; type++) {
    Bytes packet = Error4(static_cast<uint8_t>(type), 0, quoted);
    Outcome out = Run(packet);
    bool error = type == 3 || type == 11 || type == 12;
    ASSERT_EQ(out.verdict, error ? XDP_TX : XDP_PASS) << type;
    if (!error) {
      ASSERT_EQ(out.bytes, packet);
    }
  }
}

TEST_F(IcmpTest, V6ErrorsReachTheUnitOfTheFlow) {
  for (uint16_t port = 40000; port < 40200; port++) {
    uint16_t unit = Sent(Eth().Ip6("2001:db8:c::7", "2001:db8:ff::10").Tcp(port, 80));
    Counted();
    Bytes quoted = Eth().Ip6("2001:db8:ff::10", "2001:db8:c::7").Tcp(80, port).Payload(21).Ip();
    Outcome out = Run(Eth().Ip6("2001:db8:c::1", "2001:db8:ff::10").Icmp(2, 0, 1280).Payload(quoted));
    ASSERT_EQ(out.verdict, XDP_TX);
    ASSERT_EQ(UnitByMac(out.bytes), unit);
    ASSERT_EQ(WrongChecksums(out.bytes), "");
    EXPECT_EQ(Quoted(out.bytes, 8, 16), AddressOf(unit, 16));
    EXPECT_EQ(Counted(), (Counts{{"icmp_forwarded", 1}}));
  }
}

TEST_F(IcmpTest, DsrErrorsKeepTheirAddresses) {
  uint16_t unit = Sent(Eth().Ip4("198.51.100.7", "203.0.113.20").Tcp(40000, 443));
  Bytes error = Error4(3, 4, Eth().Ip4("203.0.113.20", "198.51.100.7").Tcp(443, 40000), "203.0.113.20");
  Outcome out = Run(error);
  ASSERT_EQ(out.verdict, XDP_TX);
  EXPECT_EQ(UnitByMac(out.bytes), unit);
  EXPECT_EQ(WrongChecksums(out.bytes), "");
  EXPECT_TRUE(std::equal(error.begin() + 14 + 12, error.end(), out.bytes.begin() + 14 + 12))
      << "from the source address on";
}

TEST_F(IcmpTest, ADeviatingFlowsErrorFollowsItsEntry) {
  AllCpusBusy(true);
  Sent(Eth().Ip4("198.51.100.7", "203.0.113.10").Tcp(40000, 80).Syn());
  uint16_t unit = Sent(Eth().Ip4("198.51.100.7", "203.0.113.10").Tcp(40000, 80));
  ASSERT_EQ(spw_unit_index(unit), 1u) << "the nic, since the cpu is busy";
  Outcome out = Run(Error4(3, 4, Eth().Ip4("203.0.113.10", "198.51.100.7").Tcp(80, 40000)));
  EXPECT_EQ(UnitByMac(out.bytes), unit);
}

TEST_F(IcmpTest, ErrorsAboutOthersPassUntouched) {
  for (const Bytes& packet :
       {Error4(3, 4, Eth().Ip4("203.0.113.99", "198.51.100.7").Tcp(80, 40000), "203.0.113.99"),
        Error4(3, 4, Eth().Ip4("203.0.113.10", "198.51.100.7").Protocol(47).Payload(40)),
        Error4(3, 4, Eth().Ip4("203.0.113.10", "198.51.100.7").Options(1).Tcp(80, 40000)),
        // a router's word on what went to a unit: it speaks for itself
        Bytes(Eth()
                  .Ip4("10.0.1.77", "198.51.100.7")
                  .Icmp(11, 0)
                  .Payload(Eth().Ip4("198.51.100.7", "10.0.1.1").Tcp(40000, 80).Ip()))}) {
    Counted();
    Outcome out = Run(packet);
    EXPECT_EQ(out.verdict, XDP_PASS);
    EXPECT_EQ(out.bytes, packet);
    EXPECT_EQ(Counted(), (Counts{{"packets_passed", 1}}));
  }
}

TEST_F(IcmpTest, TheShortestLegalQuoteIsEnough) {
  Bytes quote = Eth().Ip4("203.0.113.10", "198.51.100.7").Tcp(80, 40000).Ip();
  quote.resize(28);  // header and 8 bytes, RFC 792
  Outcome out = Run(Eth().Ip4("198.51.100.1", "203.0.113.10").Icmp(3, 4, 1400).Payload(quote));
  EXPECT_EQ(out.verdict, XDP_TX);
  EXPECT_EQ(WrongChecksums(out.bytes), "");
}

TEST_F(IcmpTest, AnErrorAtItsLastHopGoesToTheHost) {
  Bytes quoted = Eth().Ip4("203.0.113.10", "198.51.100.7").Tcp(80, 40000).Ip();
  Bytes error = Eth().Ip4("198.51.100.1", "203.0.113.10").Ttl(1).Icmp(3, 4, 1400).Payload(quoted);
  Outcome out = Run(error);
  EXPECT_EQ(out.verdict, XDP_PASS);
  EXPECT_EQ(out.bytes, error);
  EXPECT_EQ(Counted(), (Counts{{"packets_passed", 1}}));
}

// The other family's ICMP protocol number under this one is not ICMP.
TEST_F(IcmpTest, TheOtherFamilysIcmpIsForeign) {
  Bytes error = Error4(3, 4, Eth().Ip4("203.0.113.10", "198.51.100.7").Tcp(80, 40000));
  error[14 + 9] = 58;
  Outcome out = Run(error);
  EXPECT_EQ(out.verdict, XDP_PASS);
  EXPECT_EQ(out.bytes, error);
}

// An error is sent to whom it quotes. One that quotes a VIP but goes elsewhere is not ours.
TEST_F(IcmpTest, AnErrorToAnotherAddressIsNotOurs) {
  Bytes error = Error4(3, 4, Eth().Ip4("203.0.113.10", "198.51.100.7").Tcp(80, 40000), "192.0.2.200");
  Outcome out = Run(error);
  EXPECT_EQ(out.verdict, XDP_PASS);
  EXPECT_EQ(out.bytes, error);
}

}  // namespace
}  // namespace spillway::switching

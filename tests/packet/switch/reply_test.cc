// SPDX-License-Identifier: Apache-2.0
// The way back under nat: a unit's address becomes the VIP's, and the kernel's routing table names the
// next hop; where it cannot, the rewritten packet goes up the stack. Routes live in the namespace that
// the test made.
#include <linux/bpf.h>
#include <net/if.h>

#include <cstdlib>
#include <fstream>

#include "checksums.h"
#include "switch_program.h"

namespace spillway::switching {
namespace {

class ReplyTest : public SwitchTest {
 protected:
  static void SetUpTestSuite() {
    SwitchProgram::Get();  // makes the namespace
    ASSERT_EQ(
        std::system(
            "ip link add spwc type veth peer name spwd && ip link set spwc up && ip link set spwd up &&"
            "ip addr add 198.51.100.254/24 dev spwc && ip -6 addr add 2001:db8:c::fe/64 dev spwc nodad &&"
            "ip neigh add 198.51.100.7 lladdr 02:ee:00:00:00:07 dev spwc nud permanent &&"
            "ip -6 neigh add 2001:db8:c::7 lladdr 02:ee:00:00:00:07 dev spwc nud permanent"),
        0);
    std::ofstream("/proc/sys/net/ipv4/ip_forward") << 1;
    std::ofstream("/proc/sys/net/ipv6/conf/all/forwarding") << 1;
  }
  static void TearDownTestSuite() { EXPECT_EQ(std::system("ip link del spwc"), 0); }

  Outcome RunAtVeth(const Bytes& packet) { return program_.Run(packet, if_nametoindex("spwc")); }
};

Bytes Source(const Bytes& frame) {
  Layout at = FindLayers(frame);
  size_t start = at.family == 4 ? at.ip + 12 : at.ip + 8;
  return Bytes(frame.begin() + static_cast<long>(start),
               frame.begin() + static_cast<long>(start + (at.family == 4 ? 4 : 16)));
}

TEST_F(ReplyTest, AUnitsAddressBecomesTheVipAndTheKernelNamesTheNextHop) {
  const Bytes client_mac = {0x02, 0xee, 0, 0, 0, 7};
  struct {
    Bytes packet, like;  // like: a frame from the VIP
  } cases[] = {
      {Eth().Ip4("10.0.1.1", "198.51.100.7").Tcp(80, 40000).Payload(9),
       Eth().Ip4("203.0.113.10", "1.1.1.1").Tcp(1, 1)},
      {Eth().Ip4("10.0.2.2", "198.51.100.7").Udp(80, 40000).Payload(9),
       Eth().Ip4("203.0.113.10", "1.1.1.1").Tcp(1, 1)},
      {Eth().Ip6("2001:db8:1::1", "2001:db8:c::7").Tcp(80, 40000),
       Eth().Ip6("2001:db8:ff::10", "::1").Tcp(1, 1)},
      {Eth().Ip6("2001:db8:2::2", "2001:db8:c::7").Udp(80, 40000),
       Eth().Ip6("2001:db8:ff::10", "::1").Tcp(1, 1)},
  };
  for (const auto& c : cases) {
    Counted();
    Outcome out = RunAtVeth(c.packet);
    ASSERT_EQ(out.verdict, XDP_TX);
    EXPECT_EQ(Source(out.bytes), Source(c.like));
    EXPECT_EQ(WrongChecksums(out.bytes), "");
    EXPECT_EQ(Bytes(out.bytes.begin(), out.bytes.begin() + 6), client_mac);
    Layout at = FindLayers(out.bytes);
    EXPECT_EQ(out.bytes[at.family == 4 ? at.ip + 8 : at.ip + 7], 63) << "one hop spent";
    EXPECT_EQ(Counted(), (Counts{{"packets_returned", 1}}));
  }
}

TEST_F(ReplyTest, WithoutANeighbourTheRewrittenPacketGoesUpTheStack) {
  Outcome out = RunAtVeth(Eth().Ip4("10.0.1.1", "198.51.100.99").Tcp(80, 40000).Payload(9));
  EXPECT_EQ(out.verdict, XDP_PASS);
  EXPECT_EQ(Source(out.bytes), (Bytes{203, 0, 113, 10}));
  EXPECT_EQ(WrongChecksums(out.bytes), "");
  EXPECT_EQ(out.bytes[14 + 8], 64) << "the stack spends the hop";
}

TEST_F(ReplyTest, AReplyWithoutAUdpChecksumStaysWithout) {
  Outcome out = RunAtVeth(Eth().Ip4("10.0.1.1", "198.51.100.7").Udp(80, 40000).NoUdpChecksum().Payload(9));
  ASSERT_EQ(out.verdict, XDP_TX);
  EXPECT_EQ(out.bytes[14 + 20 + 6] | out.bytes[14 + 20 + 7], 0);
}

TEST_F(ReplyTest, AUnitsOtherTrafficIsItsOwn) {
  for (const Bytes& packet :
       {Eth().Ip4("10.0.1.1", "198.51.100.7").Tcp(22, 40000).Build(),
        Eth().Ip4("10.0.1.9", "198.51.100.7").Tcp(80, 40000).Build(),
        Eth().Ip4("10.0.1.1", "198.51.100.7").Tcp(443, 40000).Build()}) {  // dsr: no reply line
    Counted();
    Outcome out = RunAtVeth(packet);
    EXPECT_EQ(out.verdict, XDP_PASS);
    EXPECT_EQ(out.bytes, packet);
    EXPECT_EQ(Counted(), (Counts{{"packets_passed", 1}}));
  }
}

// What a unit answers to a health check of this host's own: it speaks for itself, not for the VIP.
TEST_F(ReplyTest, AnAnswerToThisHostItselfIsLeftAsItIs) {
  const Bytes quoted = Eth().Ip4("198.51.100.254", "10.0.1.1").Udp(40000, 80).Payload(8).Ip();
  for (const Bytes& packet : {Eth().Ip4("10.0.1.1", "198.51.100.254").Tcp(80, 40000).Payload(9).Build(),
                              Eth().Ip4("10.0.2.2", "198.51.100.254").Udp(80, 40000).Payload(9).Build(),
                              Eth().Ip6("2001:db8:1::1", "2001:db8:c::fe").Tcp(80, 40000).Build(),
                              Eth().Ip6("2001:db8:2::2", "2001:db8:c::fe").Udp(80, 40000).Build(),
                              Eth().Ip4("10.0.1.1", "198.51.100.254").Icmp(3, 3).Payload(quoted).Build()}) {
    Counted();
    Outcome out = RunAtVeth(packet);
    EXPECT_EQ(out.verdict, XDP_PASS);
    EXPECT_EQ(out.bytes, packet);
    EXPECT_EQ(Counted(), (Counts{{"packets_passed", 1}}));
  }
}

TEST_F(ReplyTest, AUnitsIcmpErrorSpeaksForTheVip) {
  Bytes quoted = Eth().Ip4("198.51.100.7", "10.0.1.1").Udp(40000, 80).Payload(8).Ip();
  Outcome out = RunAtVeth(Eth().Ip4("10.0.1.1", "198.51.100.7").Icmp(3, 3).Payload(quoted));
  ASSERT_EQ(out.verdict, XDP_TX);
  EXPECT_EQ(Source(out.bytes), (Bytes{203, 0, 113, 10}));
  const size_t quoted_destination = 14 + 20 + 8 + 16;
  EXPECT_EQ(Bytes(out.bytes.begin() + quoted_destination, out.bytes.begin() + quoted_destination + 4),
            (Bytes{203, 0, 113, 10}));
  EXPECT_EQ(WrongChecksums(out.bytes), "");
  EXPECT_EQ(Counted(), (Counts{{"icmp_forwarded", 1}}));
}

}  // namespace
}  // namespace spillway::switching

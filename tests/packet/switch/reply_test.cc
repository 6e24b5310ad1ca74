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

// Else it would fail its health checks, too.
TEST_F(ReplyTest, AnAnswerToThisHostItselfIsLeftAsItIsWhereNothingIsForwarded) {
  const auto forward = [](int on) {
    std::ofstream("/proc/sys/net/ipv4/ip_forward") << on;
    std::ofstream("/proc/sys/net/ipv6/conf/all/forwarding") << on;
  };
  forward(0);
  for (const Bytes& packet : {Eth().Ip4("10.0.1.1", "198.51.100.254").Tcp(80, 40000).Payload(9).Build(),
                              Eth().Ip6("2001:db8:1::1", "2001:db8:c::fe").Tcp(80, 40000).Build()}) {
    Outcome out = RunAtVeth(packet);
    EXPECT_EQ(out.verdict, XDP_PASS);
    EXPECT_EQ(out.bytes, packet);
  }
  forward(1);
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

// A datagram as its sender's IP layer cuts it for a link of this MTU.
std::vector<Bytes> Cut(const Bytes& frame, uint32_t id, size_t mtu = 1500) {
  const bool v4 = frame[12] == 0x08;
  const size_t ip = 14, payload = ip + (v4 ? 20 : 40), header = v4 ? 20 : 48;
  const size_t step = (mtu - header) / 8 * 8;
  std::vector<Bytes> fragments;
  for (size_t at = 0; at < frame.size() - payload; at += step) {
    const size_t bytes = std::min(step, frame.size() - payload - at);
    const bool more = payload + at + bytes < frame.size();
    Bytes out(frame.begin(), frame.begin() + static_cast<long>(payload));
    const auto put16 = [&out](size_t where, size_t value) {
      out[where] = static_cast<uint8_t>(value >> 8), out[where + 1] = static_cast<uint8_t>(value);
    };
    if (v4) {
      put16(ip + 2, 20 + bytes);
      put16(ip + 4, id);
      put16(ip + 6, at / 8 | (more ? 0x2000 : 0));
      put16(ip + 10, 0);
      uint32_t sum = 0;
      for (size_t i = ip; i < ip + 20; i += 2) sum += static_cast<uint32_t>(out[i] << 8 | out[i + 1]);
      sum = (sum & 0xffff) + (sum >> 16);
      put16(ip + 10, ~((sum & 0xffff) + (sum >> 16)) & 0xffff);
    } else {
      put16(ip + 4, 8 + bytes);
      out.insert(out.end(), {out[ip + 6], 0, 0, 0, 0, 0, 0, 0});
      out[ip + 6] = 44;
      put16(payload + 2, at | (more ? 1 : 0));
      put16(payload + 6, id);
    }
    out.insert(out.end(), frame.begin() + static_cast<long>(payload + at),
               frame.begin() + static_cast<long>(payload + at + bytes));
    fragments.push_back(out);
  }
  return fragments;
}

// What the receiver makes of them.
Bytes Join(const std::vector<Bytes>& fragments) {
  Bytes whole;
  for (const Bytes& fragment : fragments) {
    const bool v4 = fragment[12] == 0x08;
    const size_t data = v4 ? 34 : 62;
    if (whole.empty()) {
      whole.assign(fragment.begin(), fragment.begin() + (v4 ? 34 : 54));
      if (!v4) whole[20] = fragment[54];
    }
    whole.insert(whole.end(), fragment.begin() + static_cast<long>(data), fragment.end());
  }
  const bool v4 = whole[12] == 0x08;
  const size_t length = whole.size() - (v4 ? 14 : 54), at = v4 ? 16 : 18;
  whole[at] = static_cast<uint8_t>(length >> 8), whole[at + 1] = static_cast<uint8_t>(length);
  if (v4) {
    whole[20] = whole[21] = whole[24] = whole[25] = 0;
    uint32_t sum = 0;
    for (size_t i = 14; i < 34; i += 2) sum += static_cast<uint32_t>(whole[i] << 8 | whole[i + 1]);
    sum = (sum & 0xffff) + (sum >> 16);
    sum = ~((sum & 0xffff) + (sum >> 16)) & 0xffff;
    whole[24] = static_cast<uint8_t>(sum >> 8), whole[25] = static_cast<uint8_t>(sum);
  }
  return whole;
}

TEST_F(ReplyTest, AReplyInFragmentsLeavesAsTheVips) {
  const struct {
    Bytes whole, like;
  } cases[] = {{Eth().Ip4("10.0.1.1", "198.51.100.7").Udp(80, 40000).Payload(3000),
                Eth().Ip4("203.0.113.10", "1.1.1.1").Tcp(1, 1)},
               {Eth().Ip6("2001:db8:2::2", "2001:db8:c::7").Udp(80, 40000).Payload(3000),
                Eth().Ip6("2001:db8:ff::10", "::1").Tcp(1, 1)},
               {Eth().Ip4("10.0.2.2", "198.51.100.7").Tcp(80, 40000).Payload(3000),
                Eth().Ip4("203.0.113.10", "1.1.1.1").Tcp(1, 1)}};
  for (const auto& c : cases) {
    Counted();
    const std::vector<Bytes> fragments = Cut(c.whole, 4711);
    ASSERT_EQ(fragments.size(), 3u);
    std::vector<Bytes> left;
    for (const Bytes& fragment : fragments) {
      const Outcome out = RunAtVeth(fragment);
      ASSERT_EQ(out.verdict, XDP_TX);
      EXPECT_EQ(Source(out.bytes), Source(c.like));
      left.push_back(out.bytes);
    }
    const Bytes whole = Join(left);
    EXPECT_EQ(WrongChecksums(whole), "");
    EXPECT_EQ(Bytes(whole.end() - 3000, whole.end()), Bytes(c.whole.end() - 3000, c.whole.end()));
    EXPECT_EQ(Counted(), (Counts{{"packets_returned", 3}}));
  }
}

TEST_F(ReplyTest, AFragmentThatComesBeforeTheFirstIsDroppedAndCounted) {
  const Bytes whole = Eth().Ip4("10.0.1.1", "198.51.100.7").Udp(80, 40000).Payload(3000);
  const std::vector<Bytes> fragments = Cut(whole, 4712);
  EXPECT_EQ(RunAtVeth(fragments[2]).verdict, XDP_DROP);
  EXPECT_EQ(Counted(), (Counts{{"dropped_fragment", 1}}));
  EXPECT_EQ(RunAtVeth(fragments[0]).verdict, XDP_TX);
  EXPECT_EQ(RunAtVeth(fragments[2]).verdict, XDP_TX) << "sent again, or a copy";
  EXPECT_EQ(RunAtVeth(Cut(whole, 4713)[1]).verdict, XDP_DROP) << "of another datagram";
  Bytes first = Cut(Eth().Ip4("10.0.1.1", "198.51.100.7").Tcp(80, 40000).Payload(100), 4714, 36)[0];
  EXPECT_EQ(RunAtVeth(first).verdict, XDP_DROP) << "its checksum is in the next";
}

// Ten times as many datagrams at once as the table holds.
TEST_F(ReplyTest, FragmentsThatTheTableLosesAreNeverSentWithTheUnitsAddress) {
  const Bytes whole = Eth().Ip4("10.0.1.1", "198.51.100.7").Udp(80, 40000).Payload(3000);
  for (uint32_t id = 0; id < 40'000; id++) ASSERT_EQ(RunAtVeth(Cut(whole, id)[0]).verdict, XDP_TX);
  Counted();
  uint32_t left = 0, dropped = 0;
  for (uint32_t id = 0; id < 40'000; id++) {
    const Outcome out = RunAtVeth(Cut(whole, id)[1]);
    if (out.verdict == XDP_TX) {
      EXPECT_EQ(Source(out.bytes), (Bytes{203, 0, 113, 10}));
      left++;
    } else {
      EXPECT_EQ(out.verdict, XDP_DROP);
      dropped++;
    }
  }
  EXPECT_EQ(left, SPW_FRAGMENT_BUCKETS * SPW_FRAGMENT_ENTRIES) << "as many as the table holds";
  EXPECT_EQ(Counted()["dropped_fragment"], dropped);
}

TEST_F(ReplyTest, AUnitsOwnFragmentsPass) {
  for (const Bytes& whole : {Eth().Ip4("10.0.1.1", "198.51.100.7").Udp(53, 40000).Payload(3000).Build(),
                             Eth().Ip4("10.0.1.9", "198.51.100.7").Udp(80, 40000).Payload(3000).Build(),
                             Eth().Ip4("10.0.1.1", "198.51.100.7").Icmp(0, 0).Payload(3000).Build(),
                             Eth().Ip4("10.0.1.1", "198.51.100.254").Udp(80, 40000).Payload(3000).Build(),
                             Eth().Ip6("2001:db8:1::1", "2001:db8:c::7").Udp(53, 1).Payload(3000).Build()}) {
    for (const Bytes& fragment : Cut(whole, 4715)) {
      Counted();
      const Outcome out = RunAtVeth(fragment);
      EXPECT_EQ(out.verdict, XDP_PASS);
      EXPECT_EQ(out.bytes, fragment);
      EXPECT_EQ(Counted(), (Counts{{"packets_passed", 1}}));
    }
  }
}

}  // namespace
}  // namespace spillway::switching

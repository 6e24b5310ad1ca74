// SPDX-License-Identifier: Apache-2.0
// What is cut short, contradictory, fragmented or foreign: counted under its name, never a fault, and
// what is not ours leaves as it came.
#include <linux/bpf.h>

#include "packet_kinds.h"
#include "switch_program.h"

namespace spillway::switching {
namespace {

constexpr size_t kShortestRun = 14;  // BPF_PROG_TEST_RUN takes no less than an Ethernet header

class ParseTest : public SwitchTest {
 protected:
  void ExpectDropped(const Bytes& packet, const char* counter) {
    Counted();
    Outcome out = Run(packet);
    EXPECT_EQ(out.verdict, XDP_DROP) << counter;
    EXPECT_EQ(Counted(), (Counts{{counter, 1}}));
  }
  void ExpectUntouched(const Bytes& packet, const Counts& counts = {{"packets_passed", 1}}) {
    Counted();
    Outcome out = Run(packet);
    EXPECT_EQ(out.verdict, XDP_PASS);
    EXPECT_EQ(out.bytes, packet);
    EXPECT_EQ(Counted(), counts);
  }
};

TEST_F(ParseTest, FragmentsToAVipAreDroppedAndCounted) {
  ExpectDropped(Eth().Ip4("198.51.100.7", "203.0.113.10").Fragment(0, true).Udp(40000, 80).Payload(64),
                "dropped_fragment");
  ExpectDropped(Eth().Ip4("198.51.100.7", "203.0.113.10").Fragment(185, false).Udp(40000, 80).Payload(64),
                "dropped_fragment");
  ExpectDropped(Eth().Ip4("198.51.100.7", "203.0.113.20").Fragment(8, true).Tcp(40000, 443),
                "dropped_fragment");
  ExpectDropped(Eth().Ip6("2001:db8:c::7", "2001:db8:ff::10").Extension(44, 0).Udp(40000, 80),
                "dropped_fragment");
  ExpectDropped(Eth()
                    .Ip6("2001:db8:c::7", "2001:db8:ff::10")
                    .Extension(0, 0)
                    .Extension(60, 0)
                    .Extension(43, 0)
                    .Extension(44, 0)
                    .Udp(40000, 80),
                "dropped_fragment");
}

TEST_F(ParseTest, FragmentsToOthersPass) {
  ExpectUntouched(Eth().Ip4("198.51.100.7", "203.0.113.99").Fragment(0, true).Udp(40000, 80).Payload(64));
  ExpectUntouched(Eth().Ip6("2001:db8:c::7", "2001:db8:ff::99").Extension(44, 0).Udp(40000, 80));
}

TEST_F(ParseTest, ForeignTrafficLeavesAsItCame) {
  ExpectUntouched(Eth().Payload(60));
  ExpectUntouched(Eth().Vlan(3).Payload(60));
  ExpectUntouched(Eth().Ip4("198.51.100.7", "198.51.100.8").Tcp(40000, 80));
  ExpectUntouched(Eth().Ip6("2001:db8:c::7", "2001:db8:c::8").Udp(40000, 80));
  for (uint8_t protocol : {2, 41, 47, 50, 89, 132}) {  // IGMP, IPv6-in-IPv4, GRE, ESP, OSPF, SCTP
    ExpectUntouched(Eth().Ip4("198.51.100.7", "203.0.113.10").Protocol(protocol).Payload(40));
    ExpectUntouched(Eth().Ip6("2001:db8:c::7", "2001:db8:ff::10").Protocol(protocol).Payload(40));
  }
  ExpectUntouched(Eth().Ip4("198.51.100.7", "203.0.113.10").Icmp(8, 0).Payload(16), {{"packets_passed", 1}});
}

TEST_F(ParseTest, AVipsOtherPortsGoToTheHost) {
  ExpectUntouched(Eth().Ip4("198.51.100.7", "203.0.113.10").Tcp(40000, 81), {{"passed_unknown_port", 1}});
  ExpectUntouched(Eth().Ip4("198.51.100.7", "203.0.113.53").Tcp(40000, 53), {{"passed_unknown_port", 1}});
  ExpectUntouched(Eth().Ip6("2001:db8:c::7", "2001:db8:ff::10").Udp(40000, 443),
                  {{"passed_unknown_port", 1}});
}

TEST_F(ParseTest, AnIpv4MappedVipIsNoVip) {
  ExpectUntouched(Eth().Ip6("2001:db8:c::7", "cb00:710a::").Tcp(40000, 80));  // 203.0.113.10's bytes first
}

TEST_F(ParseTest, ContradictoryLengthsToAVipAreMalformed) {
  const Bytes v4 = Eth().Ip4("198.51.100.7", "203.0.113.10").Tcp(40000, 80).Payload(10);
  const Bytes udp = Eth().Ip4("198.51.100.7", "203.0.113.10").Udp(40000, 80).Payload(10);
  const Bytes v6 = Eth().Ip6("2001:db8:c::7", "2001:db8:ff::10").Tcp(40000, 80).Payload(10);
  auto with = [](Bytes packet, size_t at, uint8_t value) {
    packet[at] = value;
    return packet;
  };
  ExpectDropped(with(v4, 14, 0x44), "dropped_malformed");       // header of 16 bytes
  ExpectDropped(with(v4, 14, 0x65), "dropped_malformed");       // version 6 under ethertype IPv4
  ExpectDropped(with(v4, 16, 0x40), "dropped_malformed");       // longer than the frame
  ExpectDropped(with(v4, 17, 19), "dropped_malformed");         // shorter than its own header
  ExpectDropped(with(v4, 34 + 12, 0x40), "dropped_malformed");  // TCP header of 16 bytes
  ExpectDropped(with(udp, 34 + 5, 7), "dropped_malformed");     // UDP shorter than its header
  ExpectDropped(with(v6, 14, 0x40), "dropped_malformed");       // version 4 under ethertype IPv6
  ExpectDropped(with(v6, 18, 0x40), "dropped_malformed");       // longer than the frame
}

// An IP packet shorter than its frame (Ethernet pads to 60 bytes) has no transport header in the
// padding: what lies there is anybody's.
TEST_F(ParseTest, AHeaderInThePaddingIsMalformed) {
  Bytes tcp = Eth().Ip4("198.51.100.7", "203.0.113.10").Tcp(40000, 80).Payload(10);
  Bytes udp = Eth().Ip4("198.51.100.7", "203.0.113.10").Udp(40000, 80).Payload(10);
  Bytes tcp6 = Eth().Ip6("2001:db8:c::7", "2001:db8:ff::10").Tcp(40000, 80).Payload(10);
  tcp[17] = 20 + 19;
  ExpectDropped(tcp, "dropped_malformed");
  udp[17] = 20;
  ExpectDropped(udp, "dropped_malformed");
  tcp6[19] = 19;
  ExpectDropped(tcp6, "dropped_malformed");
}

TEST_F(ParseTest, PaddedFramesAreForwardedWhole) {
  Bytes packet = Eth().Ip4("198.51.100.7", "203.0.113.10").Tcp(40000, 80);
  packet.resize(60, 0);
  EXPECT_NE(Sent(packet), SPW_NO_UNIT);
}

// Cut at every length that the kernel will run, twice: with the headers' lengths as they were, so
// that they contradict the frame, and with the total length following the cut.
TEST_F(ParseTest, EveryTruncationIsPassedOrDroppedUnderAName) {
  for (const auto& [name, packet] : PacketKinds()) {
    for (bool follow : {false, true}) {
      for (size_t length = kShortestRun; length < packet.size(); length++) {
        Bytes cut(packet.begin(), packet.begin() + static_cast<long>(length));
        size_t ip = 14;
        while (ip < length && (cut[ip - 2] == 0x81 || cut[ip - 2] == 0x88)) ip += 4;
        if (follow && ip + 40 <= length) {
          size_t total = cut[ip] >> 4 == 4 ? length - ip : length - ip - 40;
          size_t at = cut[ip] >> 4 == 4 ? ip + 2 : ip + 4;
          cut[at] = static_cast<uint8_t>(total >> 8), cut[at + 1] = static_cast<uint8_t>(total);
        }
        Counted();
        Outcome out = Run(cut);
        ASSERT_NE(out.verdict, XDP_ABORTED) << name << " " << length;
        ASSERT_EQ(out.bytes.size(), length) << name;
        Counts counts = Counted();
        ASSERT_FALSE(counts.empty()) << name << " " << length;
        if (!follow) {
          ASSERT_TRUE(out.verdict == XDP_PASS || out.verdict == XDP_DROP) << name << " " << length;
          if (out.verdict == XDP_PASS) {
            ASSERT_EQ(out.bytes, cut) << name << " " << length;
          }
        }
      }
    }
  }
}

TEST_F(ParseTest, FramesBelowAnEthernetHeaderAreTheDriversToRefuse) {
  for (size_t length = 0; length < kShortestRun; length++) EXPECT_EQ(Run(Bytes(length, 0)).verdict, -1);
}

}  // namespace
}  // namespace spillway::switching

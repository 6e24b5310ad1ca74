// SPDX-License-Identifier: Apache-2.0
#include "lab/balancer/request_packet.h"

#include <gtest/gtest.h>

#include "checksums.h"
#include "packet_builder.h"

namespace spillway::balancer {
namespace {

using switching::Bytes;
using switching::Eth;
using switching::WrongChecksums;

constexpr Mac kOwnMac{2, 0, 0, 0, 0, 9};

Parsed ParsedAs(const Bytes& frame) {
  RequestPacket packet;
  return Parse(frame, packet);
}

Bytes Sent(Bytes frame, const char* to) {
  RequestPacket packet;
  EXPECT_EQ(Parse(frame, packet), Parsed::kRequest);
  Readdress(frame, packet, *model::Address::Parse(to), kOwnMac);
  return frame;
}

TEST(RequestPacket, TellsAddressesAndPorts) {
  RequestPacket packet;
  const Bytes four = Eth().Ip4("198.51.100.1", "203.0.113.10").Options(2).Udp(40000, 53).Payload(5);
  ASSERT_EQ(Parse(four, packet), Parsed::kRequest);
  EXPECT_EQ(packet.source.ToString(), "198.51.100.1");
  EXPECT_EQ(packet.destination.ToString(), "203.0.113.10");
  EXPECT_EQ(packet.source_port, 40000);
  EXPECT_EQ(packet.destination_port, 53);
  const Bytes six = Eth().Ip6("2001:db8::1", "2001:db8::2").Udp(7, 8).Payload(1);
  ASSERT_EQ(Parse(six, packet), Parsed::kRequest);
  EXPECT_EQ(packet.destination.ToString(), "2001:db8::2");
  EXPECT_EQ(packet.source_port, 7);
}

TEST(RequestPacket, WhatIsNoWholeDatagramIsToldApart) {
  EXPECT_EQ(ParsedAs(Eth().Ip4("1.2.3.4", "5.6.7.8").Tcp(1, 2)), Parsed::kOther);
  EXPECT_EQ(ParsedAs(Eth().Ip4("1.2.3.4", "5.6.7.8").Icmp(8, 0)), Parsed::kOther);
  EXPECT_EQ(ParsedAs(Bytes(60, 0xff)), Parsed::kOther);
  EXPECT_EQ(ParsedAs(Eth().Ip4("1.2.3.4", "5.6.7.8").Fragment(0, true).Udp(1, 2).Payload(9)),
            Parsed::kFragment);
  EXPECT_EQ(ParsedAs(Eth().Ip4("1.2.3.4", "5.6.7.8").Fragment(185, false).Udp(1, 2).Payload(9)),
            Parsed::kFragment);
  EXPECT_EQ(ParsedAs(Eth().Ip6("::1", "::2").Extension(44, 0).Udp(1, 2)), Parsed::kFragment);
}

TEST(RequestPacket, AFrameCutAnywhereIsMalformed) {
  for (const Bytes& whole : {Bytes(Eth().Ip4("1.2.3.4", "5.6.7.8").Options(1).Udp(1, 2).Payload(20)),
                             Bytes(Eth().Ip6("::1", "::2").Udp(1, 2).Payload(20))})
    for (size_t length = 0; length < whole.size(); length++)
      EXPECT_EQ(ParsedAs(Bytes(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(length))),
                Parsed::kMalformed)
          << length << " of " << whole.size();
}

TEST(RequestPacket, LengthsThatContradictEachOtherAreMalformed) {
  const Bytes whole = Eth().Ip4("1.2.3.4", "5.6.7.8").Udp(1, 2).Payload(20);
  const auto with = [&](size_t at, uint8_t value) {
    Bytes frame = whole;
    frame[at] = value;
    return ParsedAs(frame);
  };
  EXPECT_EQ(with(14, 0x44), Parsed::kMalformed) << "a header of 16 bytes";
  EXPECT_EQ(with(14, 0x4f), Parsed::kMalformed) << "a header beyond the packet";
  EXPECT_EQ(with(14, 0x65), Parsed::kMalformed) << "version 6 in an IPv4 frame";
  EXPECT_EQ(with(17, 10), Parsed::kMalformed) << "a packet shorter than its header";
  EXPECT_EQ(with(17, 24), Parsed::kMalformed) << "no room for a UDP header";
  EXPECT_EQ(with(38, 1), Parsed::kMalformed) << "a datagram longer than its packet";
  EXPECT_EQ(with(39, 7), Parsed::kMalformed) << "a datagram shorter than its header";
}

TEST(RequestPacket, AReaddressedFrameIsWholeAndGoesBackWhereItCameFrom) {
  const Bytes before = Eth().Ip4("198.51.100.1", "203.0.113.10").Udp(40000, 53).Payload(33);
  const Bytes after = Sent(before, "10.0.0.7");
  EXPECT_EQ(WrongChecksums(after), "");
  RequestPacket packet;
  ASSERT_EQ(Parse(after, packet), Parsed::kRequest);
  EXPECT_EQ(packet.destination.ToString(), "10.0.0.7");
  EXPECT_EQ(packet.source.ToString(), "198.51.100.1") << "the unit answers the client itself";
  EXPECT_TRUE(std::equal(after.begin(), after.begin() + 6, before.begin() + 6));
  EXPECT_TRUE(std::equal(kOwnMac.begin(), kOwnMac.end(), after.begin() + 6));
  EXPECT_TRUE(std::equal(after.begin() + 34, after.begin() + 40, before.begin() + 34)) << "ports, length";

  EXPECT_EQ(WrongChecksums(Sent(Eth().Ip6("2001:db8::1", "2001:db8::2").Udp(1, 2).Payload(8), "fd00::9")),
            "");
}

TEST(RequestPacket, ADatagramWithoutAChecksumStaysWithout) {
  const Bytes after = Sent(Eth().Ip4("1.2.3.4", "5.6.7.8").Udp(1, 2).NoUdpChecksum().Payload(8), "10.0.0.7");
  EXPECT_EQ(after[40] | after[41], 0);
  EXPECT_EQ(WrongChecksums(after), "");
}

TEST(RequestPacket, AChecksumThatComesOutAsZeroIsSentAsAllOnes) {
  // Among 65,536 payloads one has it.
  int seen = 0;
  for (uint32_t i = 0; i < 0x10000; i++) {
    const Bytes payload{static_cast<uint8_t>(i >> 8), static_cast<uint8_t>(i)};
    const Bytes after = Sent(Eth().Ip4("1.2.3.4", "5.6.7.8").Udp(1, 2).Payload(payload), "10.0.0.7");
    ASSERT_NE(after[40] | after[41], 0) << i;
    seen += after[40] == 0xff && after[41] == 0xff;
  }
  EXPECT_GE(seen, 1);
}

TEST(RequestPacket, DamageStaysVisible) {
  Bytes frame = Eth().Ip4("1.2.3.4", "5.6.7.8").Udp(1, 2).Payload(8);
  frame.back() ^= 0x10;
  EXPECT_NE(WrongChecksums(Sent(frame, "10.0.0.7")), "");
}

}  // namespace
}  // namespace spillway::balancer

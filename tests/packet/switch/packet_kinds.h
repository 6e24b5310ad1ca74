// SPDX-License-Identifier: Apache-2.0
// One packet of every kind that the switch tells apart; what truncation and fuzzing start from.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "packet_builder.h"

namespace spillway::switching {

// A load report's datagram for TestConfig()'s report address; `payload` as it lies on the wire.
inline Bytes ReportPacket(Bytes payload) {
  return Eth().Ip4("10.0.1.1", "192.0.2.1").Udp(50000, 9870).Payload(std::move(payload));
}

inline std::vector<std::pair<std::string, Bytes>> PacketKinds() {
  Eth quoted4 = Eth().Ip4("203.0.113.10", "198.51.100.7").Tcp(80, 40000);
  Eth quoted4_unit = Eth().Ip4("198.51.100.7", "10.0.1.1").Tcp(40000, 80);
  Eth quoted6 = Eth().Ip6("2001:db8:ff::10", "2001:db8:c::7").Udp(80, 40000);
  return {
      {"tcp4", Eth().Ip4("198.51.100.7", "203.0.113.10").Tcp(40000, 80).Payload(5)},
      {"syn4", Eth().Ip4("198.51.100.7", "203.0.113.10").Tcp(40001, 80).Syn()},
      {"fin4", Eth().Ip4("198.51.100.7", "203.0.113.20").Tcp(40000, 443).Flags(kFin | kAck)},
      {"udp4", Eth().Ip4("198.51.100.7", "203.0.113.10").Udp(40000, 80).Payload(5)},
      {"dns4", Eth().Ip4("198.51.100.7", "203.0.113.53").Udp(40000, 53).Payload(30)},
      {"tcp6", Eth().Ip6("2001:db8:c::7", "2001:db8:ff::10").Tcp(40000, 80).Payload(5)},
      {"syn6", Eth().Ip6("2001:db8:c::7", "2001:db8:ff::20").Tcp(40000, 443).Syn()},
      {"udp6", Eth().Ip6("2001:db8:c::7", "2001:db8:ff::20").Udp(40000, 443).Payload(5)},
      {"vlan4", Eth().Vlan(5).Ip4("198.51.100.7", "203.0.113.10").Tcp(40000, 80)},
      {"qinq6", Eth().Vlan(5, 0x88a8).Vlan(6).Ip6("2001:db8:c::7", "2001:db8:ff::10").Udp(1, 80)},
      {"options4", Eth().Ip4("198.51.100.7", "203.0.113.10").Options(10).Tcp(40000, 80)},
      {"extensions6", Eth()
                          .Ip6("2001:db8:c::7", "2001:db8:ff::10")
                          .Extension(0, 1)
                          .Extension(43, 2)
                          .Extension(60, 0)
                          .Tcp(4, 80)},
      {"fragment4", Eth().Ip4("198.51.100.7", "203.0.113.10").Fragment(0, true).Udp(40000, 80).Payload(64)},
      {"fragment6",
       Eth().Ip6("2001:db8:c::7", "2001:db8:ff::10").Extension(44, 0).Udp(40000, 80).Payload(64)},
      {"reply4", Eth().Ip4("10.0.1.1", "198.51.100.7").Tcp(80, 40000)},
      {"reply6", Eth().Ip6("2001:db8:1::1", "2001:db8:c::7").Udp(80, 40000).Payload(5)},
      {"icmp4-client", Eth().Ip4("198.51.100.1", "203.0.113.10").Icmp(3, 4, 1400).Payload(quoted4.Ip())},
      {"icmp4-unit", Eth().Ip4("10.0.1.1", "198.51.100.7").Icmp(3, 3).Payload(quoted4_unit.Ip())},
      {"icmp6-client", Eth().Ip6("2001:db8:c::1", "2001:db8:ff::10").Icmp(2, 0, 1400).Payload(quoted6.Ip())},
      {"ping4", Eth().Ip4("198.51.100.7", "203.0.113.10").Icmp(8, 0).Payload(16)},
      {"report", ReportPacket(Bytes(40, 0x53))},
  };
}

}  // namespace spillway::switching

// SPDX-License-Identifier: Apache-2.0
// Builds frames header by header, with right lengths and checksums unless told otherwise:
//   Eth().Vlan(5).Ip4("198.51.100.1", "203.0.113.10").Tcp(40000, 80).Syn().Payload(10).Build()
// Call the layers in the order of the wire. Values; no threading.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/pool.h"

namespace spillway::switching {

using Bytes = std::vector<uint8_t>;

enum TcpFlag : uint8_t { kFin = 1, kSyn = 2, kRst = 4, kPsh = 8, kAck = 16 };

class Eth {
 public:
  Eth& Vlan(uint16_t id, uint16_t ethertype = 0x8100);
  Eth& Ip4(const std::string& source, const std::string& destination);
  Eth& Ip6(const std::string& source, const std::string& destination);
  Eth& Ttl(uint8_t hops);
  Eth& Options(int words);                    // IPv4: `words` 4-byte no-op options
  Eth& Extension(uint8_t kind, int words8);   // IPv6: header of 8 + 8 * words8 bytes; 44: fragment
  Eth& Fragment(uint16_t offset, bool more);  // IPv4
  Eth& Tcp(uint16_t source, uint16_t destination, uint8_t flags = kAck);
  Eth& Syn() { return Flags(kSyn); }
  Eth& Flags(uint8_t flags);
  Eth& Seq(uint32_t number);
  Eth& Udp(uint16_t source, uint16_t destination);
  Eth& NoUdpChecksum();
  Eth& Icmp(uint8_t type, uint8_t code, uint32_t rest = 0);  // ICMPv6 after Ip6
  Eth& Protocol(uint8_t protocol);                           // anything else; the payload follows
  Eth& Payload(size_t bytes);                                // a fixed pattern
  Eth& Payload(Bytes bytes);
  Bytes Build() const;
  Bytes Ip() const;  // from the IP header on: what an ICMP error quotes
  operator Bytes() const { return Build(); }

 private:
  struct ExtensionHeader {
    uint8_t kind;
    int words8;
  };
  Bytes Transport() const;
  uint32_t PseudoSum(uint8_t protocol, size_t length) const;

  std::vector<std::pair<uint16_t, uint16_t>> vlans_;  // ethertype, tag
  int family_ = 0;
  model::Address source_, destination_;
  uint8_t ttl_ = 64;
  int option_words_ = 0;
  std::vector<ExtensionHeader> extensions_;
  uint16_t fragment_ = 0;
  uint8_t protocol_ = 0;
  uint16_t sport_ = 0, dport_ = 0;
  uint8_t flags_ = 0;
  uint32_t sequence_ = 0x01020304;
  bool udp_checksum_ = true;
  uint8_t icmp_type_ = 0, icmp_code_ = 0;
  uint32_t icmp_rest_ = 0;
  Bytes payload_;
};

// For floods, which change a built frame instead of building each: offsets of IPv4 without tags or options.
inline constexpr size_t kSource = 26, kSourcePort = 34, kSequence = 38, kTcpFlags = 47;

inline void Put(Bytes& frame, size_t at, uint32_t value, int bytes) {
  for (int b = 0; b < bytes; b++)
    frame[at + static_cast<size_t>(b)] = static_cast<uint8_t>(value >> 8 * (bytes - 1 - b));
}

}  // namespace spillway::switching

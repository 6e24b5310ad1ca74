// SPDX-License-Identifier: Apache-2.0
// Recomputes every checksum of a frame from scratch, by its own slow parser: nothing here is shared
// with the code under test. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace spillway::switching {

// Sum of big-endian 16-bit words; an odd byte counts as the upper half.
uint32_t SumWords(const uint8_t* bytes, size_t count);
// The ones' complement checksum of a sum.
uint16_t FoldSum(uint32_t sum);

// Empty when all are right; else what is wrong. Covers the IPv4 header, TCP, UDP (0 over IPv4: none),
// ICMP, ICMPv6, and the header checksum of an IPv4 packet quoted in an ICMP error.
std::string WrongChecksums(const std::vector<uint8_t>& frame);

// Parts of a frame that is whole; family 0: no IP.
struct Layout {
  size_t ip = 0, transport = 0, end = 0;  // offsets; end: of the IP packet
  int family = 0;
  uint8_t protocol = 0;
};
Layout FindLayers(const std::vector<uint8_t>& frame);

}  // namespace spillway::switching

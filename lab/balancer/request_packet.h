// SPDX-License-Identifier: Apache-2.0
// One UDP request as an Ethernet frame: where its parts lie, and how it is sent on to another address.
// Works in place. Pure.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "model/pool.h"

namespace spillway::balancer {

using Mac = std::array<uint8_t, 6>;

enum class Parsed {
  kRequest,    // a whole UDP datagram
  kOther,      // not UDP over IPv4 or IPv6
  kFragment,   // its ports cannot be known
  kMalformed,  // lengths that contradict each other or the frame
};

struct RequestPacket {
  int family = 4;
  size_t ip = 0, udp = 0;  // offsets in the frame
  model::Address source, destination;
  uint16_t source_port = 0, destination_port = 0;  // host order
};

// Extension headers of IPv6 are not followed: what has some is kOther.
[[nodiscard]] Parsed Parse(std::span<const uint8_t> frame, RequestPacket& packet);

// Gives the frame another IP destination, of the same family, and sends it back to the neighbour it came
// from, out of `own`. Checksums are adjusted (RFC 1624), not recomputed: damage stays visible.
void Readdress(std::span<uint8_t> frame, const RequestPacket& packet, const model::Address& to,
               const Mac& own);

}  // namespace spillway::balancer

// SPDX-License-Identifier: Apache-2.0
#include "request_packet.h"

#include <algorithm>
#include <cstring>

namespace spillway::balancer {
namespace {

constexpr size_t kEthernet = 14, kIp4 = 20, kIp6 = 40, kUdp = 8;
constexpr uint8_t kUdpProtocol = 17;

uint16_t Get16(std::span<const uint8_t> frame, size_t at) {
  return static_cast<uint16_t>(frame[at] << 8 | frame[at + 1]);
}

model::Address AddressAt(std::span<const uint8_t> frame, size_t at, int family) {
  model::Address address;
  address.family = family;
  std::copy_n(frame.begin() + static_cast<std::ptrdiff_t>(at), family == 4 ? 4 : 16, address.bytes.begin());
  return address;
}

// The checksum at `at` after `from` has become `to`; RFC 1624, equation 3. In memory order throughout:
// ones' complement sums do not care which byte comes first.
void AdjustChecksum(std::span<uint8_t> frame, size_t at, const model::Address& from,
                    const model::Address& to) {
  uint16_t check;
  std::memcpy(&check, &frame[at], sizeof check);
  uint32_t sum = static_cast<uint16_t>(~check);
  for (size_t i = 0; i < (from.family == 4 ? 4u : 16u); i += 2) {
    uint16_t before, after;
    std::memcpy(&before, &from.bytes[i], sizeof before);
    std::memcpy(&after, &to.bytes[i], sizeof after);
    sum += static_cast<uint16_t>(~before) + uint32_t{after};
  }
  while (sum >> 16) sum = (sum & 0xffff) + (sum >> 16);
  check = static_cast<uint16_t>(~sum);
  std::memcpy(&frame[at], &check, sizeof check);
}

Parsed ParseIp4(std::span<const uint8_t> frame, RequestPacket& packet) {
  if (frame.size() < kEthernet + kIp4) return Parsed::kMalformed;
  const size_t header = (frame[kEthernet] & 0xf) * 4u, total = Get16(frame, kEthernet + 2);
  if (frame[kEthernet] >> 4 != 4 || header < kIp4 || total < header || kEthernet + total > frame.size())
    return Parsed::kMalformed;
  if (frame[kEthernet + 9] != kUdpProtocol) return Parsed::kOther;
  if (Get16(frame, kEthernet + 6) & 0x3fff) return Parsed::kFragment;  // more follow, or not the first
  packet.udp = kEthernet + header;
  packet.source = AddressAt(frame, kEthernet + 12, 4);
  packet.destination = AddressAt(frame, kEthernet + 16, 4);
  return total < header + kUdp || Get16(frame, packet.udp + 4) > total - header ? Parsed::kMalformed
                                                                                : Parsed::kRequest;
}

Parsed ParseIp6(std::span<const uint8_t> frame, RequestPacket& packet) {
  if (frame.size() < kEthernet + kIp6) return Parsed::kMalformed;
  const size_t payload = Get16(frame, kEthernet + 4);
  if (frame[kEthernet] >> 4 != 6 || kEthernet + kIp6 + payload > frame.size()) return Parsed::kMalformed;
  if (frame[kEthernet + 6] == 44) return Parsed::kFragment;
  if (frame[kEthernet + 6] != kUdpProtocol) return Parsed::kOther;
  packet.udp = kEthernet + kIp6;
  packet.source = AddressAt(frame, kEthernet + 8, 6);
  packet.destination = AddressAt(frame, kEthernet + 24, 6);
  return payload < kUdp || Get16(frame, packet.udp + 4) > payload ? Parsed::kMalformed : Parsed::kRequest;
}

}  // namespace

Parsed Parse(std::span<const uint8_t> frame, RequestPacket& packet) {
  if (frame.size() < kEthernet) return Parsed::kMalformed;
  const uint16_t type = Get16(frame, 12);
  if (type != 0x0800 && type != 0x86dd) return Parsed::kOther;
  packet.family = type == 0x0800 ? 4 : 6;
  packet.ip = kEthernet;
  const Parsed parsed = packet.family == 4 ? ParseIp4(frame, packet) : ParseIp6(frame, packet);
  if (parsed != Parsed::kRequest) return parsed;
  packet.source_port = Get16(frame, packet.udp);
  packet.destination_port = Get16(frame, packet.udp + 2);
  return Get16(frame, packet.udp + 4) < kUdp ? Parsed::kMalformed : Parsed::kRequest;
}

void Readdress(std::span<uint8_t> frame, const RequestPacket& packet, const model::Address& to,
               const Mac& own) {
  std::copy_n(frame.begin() + 6, own.size(), frame.begin());
  std::copy(own.begin(), own.end(), frame.begin() + 6);
  const bool v4 = packet.family == 4;
  if (v4) AdjustChecksum(frame, packet.ip + 10, packet.destination, to);
  const size_t check = packet.udp + 6;
  // UDP over IPv4 may have no checksum, 0; a sum that comes out as 0 is sent as all ones (RFC 768).
  if (!v4 || Get16(frame, check) != 0) {
    AdjustChecksum(frame, check, packet.destination, to);
    if (Get16(frame, check) == 0) frame[check] = frame[check + 1] = 0xff;
  }
  std::copy_n(to.bytes.begin(), v4 ? 4 : 16,
              frame.begin() + static_cast<std::ptrdiff_t>(packet.ip + (v4 ? 16 : 24)));
}

}  // namespace spillway::balancer

// SPDX-License-Identifier: Apache-2.0
#include "bench/flood/generator.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/ip.h>
#include <netinet/tcp.h>
#include <netinet/udp.h>
#include <sys/socket.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

#include "base/fd.h"

namespace spillway::bench {
namespace {

constexpr uint64_t kBurst = 64;

struct RawTcp {
  iphdr ip;
  tcphdr tcp;
};
struct RawUdp {
  iphdr ip;
  udphdr udp;
  char payload[4];  // no request
};

uint32_t Sum(const void* data, size_t bytes, uint32_t sum) {
  const auto* at = static_cast<const uint8_t*>(data);
  for (size_t i = 0; i + 1 < bytes; i += 2) sum += static_cast<uint32_t>(at[i] << 8 | at[i + 1]);
  return sum;
}

uint16_t Fold(uint32_t sum) {
  while (sum >> 16) sum = (sum & 0xffff) + (sum >> 16);
  return htons(static_cast<uint16_t>(~sum));
}

// The kernel fills in the header's checksum.
iphdr Header(const FloodPacket& packet, const model::Address& vip, size_t bytes) {
  iphdr ip{};
  ip.version = 4;
  ip.ihl = 5;
  ip.ttl = 64;
  ip.protocol = packet.is_udp ? IPPROTO_UDP : IPPROTO_TCP;
  ip.tot_len = htons(static_cast<uint16_t>(bytes));
  ip.saddr = htonl(packet.source);
  std::memcpy(&ip.daddr, vip.bytes.data(), 4);
  return ip;
}

RawTcp Tcp(const FloodPacket& packet, const model::Address& vip, uint16_t port) {
  RawTcp raw{Header(packet, vip, sizeof(raw)), {}};
  raw.tcp.source = htons(packet.port);
  raw.tcp.dest = htons(port);
  raw.tcp.seq = htonl(packet.sequence);
  raw.tcp.doff = sizeof(raw.tcp) / 4;
  raw.tcp.window = htons(64000);
  raw.tcp.fin = (packet.flags & kFin) != 0;
  raw.tcp.syn = (packet.flags & kSyn) != 0;
  raw.tcp.rst = (packet.flags & kRst) != 0;
  raw.tcp.ack = (packet.flags & kAck) != 0;
  raw.tcp.check = Fold(Sum(&raw.tcp, sizeof(raw.tcp), Sum(&raw.ip.saddr, 8, IPPROTO_TCP + sizeof(raw.tcp))));
  return raw;
}

RawUdp Udp(const FloodPacket& packet, const model::Address& vip, uint16_t port) {
  RawUdp raw{Header(packet, vip, sizeof(raw)), {}, {}};
  raw.udp.source = htons(packet.port);
  raw.udp.dest = htons(port);
  raw.udp.len = htons(sizeof(raw) - sizeof(raw.ip));
  return raw;  // without a checksum
}

}  // namespace

Result<void> SendFlood(Flood flood, uint64_t packets, const model::Address& vip, uint16_t port,
                       uint32_t packets_per_s, const std::atomic<bool>& stops, std::atomic<uint64_t>& sent) {
  const base::Fd fd(socket(AF_INET, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_RAW));
  if (!fd) return Fail(ErrorCode::kUnavailable, fmt::format("a raw socket: {}", std::strerror(errno)));
  sockaddr_in to{};
  to.sin_family = AF_INET;
  std::memcpy(&to.sin_addr, vip.bytes.data(), 4);
  const auto* address = reinterpret_cast<const sockaddr*>(&to);
  auto next = std::chrono::steady_clock::now();
  for (uint64_t i = 0; i < packets && !stops; i++) {
    if (i % kBurst == 0) {
      sent = i;
      std::this_thread::sleep_until(next);
      next = std::max(next, std::chrono::steady_clock::now() - std::chrono::milliseconds(10)) +
             std::chrono::nanoseconds(kBurst * 1'000'000'000 / packets_per_s);
    }
    const FloodPacket packet = flood.Next();
    ssize_t n = 0;
    if (packet.is_udp) {
      const RawUdp raw = Udp(packet, vip, port);
      n = sendto(fd.get(), &raw, sizeof(raw), 0, address, sizeof(to));
    } else {
      const RawTcp raw = Tcp(packet, vip, port);
      n = sendto(fd.get(), &raw, sizeof(raw), 0, address, sizeof(to));
    }
    if (n < 0 && errno != ENOBUFS)
      return Fail(ErrorCode::kSystem, fmt::format("sending a packet of the flood: {}", std::strerror(errno)));
  }
  sent = packets;
  return {};
}

}  // namespace spillway::bench

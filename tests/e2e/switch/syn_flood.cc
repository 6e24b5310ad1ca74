// SPDX-License-Identifier: Apache-2.0
#include "syn_flood.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/ip.h>
#include <netinet/ip6.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>

#include "lab/testbed/netns.h"

namespace spillway::e2e {
namespace {

uint32_t Sum(const void* data, size_t bytes, uint32_t sum = 0) {
  const auto* at = static_cast<const uint8_t*>(data);
  for (size_t i = 0; i + 1 < bytes; i += 2) sum += static_cast<uint32_t>(at[i] << 8 | at[i + 1]);
  return sum;
}

uint16_t Fold(uint32_t sum) {
  while (sum >> 16) sum = (sum & 0xffff) + (sum >> 16);
  return htons(static_cast<uint16_t>(~sum));
}

tcphdr Syn(uint32_t number, uint16_t port) {
  tcphdr tcp{};
  tcp.source = htons(static_cast<uint16_t>(1024 + number % 60000));
  tcp.dest = htons(port);
  tcp.seq = htonl(number * 2654435761u);
  tcp.doff = sizeof(tcp) / 4;
  tcp.syn = 1;
  tcp.window = htons(64000);
  return tcp;
}

struct Packet4 {
  iphdr ip{};
  tcphdr tcp{};
};

Packet4 Make4(const model::Address& to, uint16_t port, uint32_t number) {
  Packet4 p;
  p.ip.version = 4;
  p.ip.ihl = 5;
  p.ip.ttl = 64;
  p.ip.protocol = IPPROTO_TCP;
  p.ip.tot_len = htons(sizeof(p));
  p.ip.saddr = htonl(0xc6120000u + number % 0x20000);
  memcpy(&p.ip.daddr, to.bytes.data(), 4);
  p.tcp = Syn(number, port);
  p.tcp.check = Fold(Sum(&p.tcp, sizeof(p.tcp), Sum(&p.ip.saddr, 8, IPPROTO_TCP + sizeof(p.tcp))));
  return p;  // the kernel fills the IP checksum in
}

struct Packet6 {
  ip6_hdr ip{};
  tcphdr tcp{};
};

Packet6 Make6(const model::Address& to, uint16_t port, uint32_t number) {
  Packet6 p;
  p.ip.ip6_vfc = 0x60;
  p.ip.ip6_plen = htons(sizeof(p.tcp));
  p.ip.ip6_nxt = IPPROTO_TCP;
  p.ip.ip6_hlim = 64;
  const uint32_t source[4] = {htonl(0x20010db8u), 0, 0, htonl(number)};
  memcpy(&p.ip.ip6_src, source, 16);
  memcpy(&p.ip.ip6_dst, to.bytes.data(), 16);
  p.tcp = Syn(number, port);
  p.tcp.check = Fold(Sum(&p.tcp, sizeof(p.tcp), Sum(&p.ip.ip6_src, 32, IPPROTO_TCP + sizeof(p.tcp))));
  return p;
}

}  // namespace

Result<void> FloodSyns(const lab::Plan& plan, const model::Address& to, uint16_t port, uint32_t first,
                       uint32_t count) {
  return lab::Inside(plan.client_netns, [&]() -> Result<void> {
    const bool v4 = to.family == 4;
    const int fd = socket(v4 ? AF_INET : AF_INET6, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_RAW);
    sockaddr_in a4{};
    sockaddr_in6 a6{};
    a4.sin_family = AF_INET;
    a6.sin6_family = AF_INET6;
    memcpy(&a4.sin_addr, to.bytes.data(), 4);
    memcpy(&a6.sin6_addr, to.bytes.data(), 16);
    Result<void> sent;
    for (uint32_t i = first; i < first + count && sent; i++) {
      const Packet4 p4 = Make4(to, port, i);
      const Packet6 p6 = Make6(to, port, i);
      const ssize_t n = v4 ? sendto(fd, &p4, sizeof(p4), 0, reinterpret_cast<sockaddr*>(&a4), sizeof(a4))
                           : sendto(fd, &p6, sizeof(p6), 0, reinterpret_cast<sockaddr*>(&a6), sizeof(a6));
      // A full queue is no failure of a flood.
      if (n < 0 && errno != ENOBUFS)
        sent = Fail(ErrorCode::kSystem, fmt::format("send a SYN: {}", strerror(errno)));
    }
    close(fd);
    return sent;
  });
}

}  // namespace spillway::e2e

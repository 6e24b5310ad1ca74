// SPDX-License-Identifier: Apache-2.0
#include "bench/switch/frames.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <array>
#include <cstring>
#include <numeric>

namespace spillway::bench {
namespace {

constexpr size_t kEthernetBytes = 14, kSmallestFrame = 60;
constexpr size_t kV4Bytes = 20, kV6Bytes = 40, kTcpBytes = 20, kUdpBytes = 8;
constexpr uint8_t kTcpSyn = 0x02, kTcpAck = 0x10;

bool IsV6(Packet packet) { return packet == Packet::kV6Tcp; }
bool IsTcp(Packet packet) { return packet == Packet::kV4Tcp || packet == Packet::kV6Tcp; }

// The client's address; IPv6: 2001:db8:c::<flow>.
std::array<uint32_t, 4> ClientWords(Packet packet, uint32_t flow) {
  if (!IsV6(packet)) return {spw_bench_client(flow), 0, 0, 0};
  return {htonl(0x20010db8), htonl(0x000c0000), 0, spw_bench_client(flow)};
}

void Put16(uint8_t* at, size_t value) {
  at[0] = static_cast<uint8_t>(value >> 8);
  at[1] = static_cast<uint8_t>(value);
}

size_t TransportBytes(Packet packet) {
  if (IsTcp(packet)) return kTcpBytes;
  if (packet == Packet::kReport) return kUdpBytes + sizeof(spw_report_wire);
  return kSmallestFrame - kEthernetBytes - kV4Bytes;
}

}  // namespace

std::string ToString(Packet packet) {
  return packet == Packet::kV4Tcp ? "v4tcp" : packet == Packet::kV6Tcp ? "v6tcp" : "v4udp";
}

size_t FrameBytes(Packet packet) {
  const size_t bytes = kEthernetBytes + (IsV6(packet) ? kV6Bytes : kV4Bytes) + TransportBytes(packet);
  return std::max(bytes, kSmallestFrame);
}

spw_bench_frame MakeFrame(Packet packet, const spw_endpoint& to, TcpKind kind) {
  std::array<uint8_t, kEthernetBytes + 4 * SPW_BENCH_WORDS> bytes{2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2};
  const auto client = ClientWords(packet, 0);
  uint8_t* l3 = &bytes[kEthernetBytes];
  Put16(&bytes[12], IsV6(packet) ? 0x86dd : 0x0800);
  if (IsV6(packet)) {
    l3[0] = 0x60;
    Put16(&l3[4], kTcpBytes);
    l3[6] = IPPROTO_TCP;
    l3[7] = 64;
    std::memcpy(&l3[8], client.data(), 16);
    std::memcpy(&l3[24], to.addr, 16);
  } else {
    l3[0] = 0x45;
    Put16(&l3[2], kV4Bytes + TransportBytes(packet));
    l3[8] = 64;
    l3[9] = IsTcp(packet) ? IPPROTO_TCP : IPPROTO_UDP;
    Put16(&l3[10], 0x1234);
    std::memcpy(&l3[12], client.data(), 4);
    std::memcpy(&l3[16], to.addr, 4);
  }
  uint8_t* l4 = l3 + (IsV6(packet) ? kV6Bytes : kV4Bytes);
  std::memcpy(&l4[2], &to.port, 2);
  if (IsTcp(packet)) {
    l4[12] = 0x50;
    l4[7] = kind == TcpKind::kFirstAck;  // of the sequence number
    l4[13] = kind == TcpKind::kSyn ? kTcpSyn : kTcpAck;
    Put16(&l4[16], 0x5678);
  } else {
    Put16(&l4[4], TransportBytes(packet));
    Put16(&l4[6], 0x5678);
  }
  spw_bench_frame frame{};
  std::memcpy(&frame.eth, &bytes[0], 8);
  std::memcpy(&frame.eth_8, &bytes[8], 4);
  std::memcpy(&frame.eth_12, &bytes[12], 2);
  std::memcpy(frame.words, l3, sizeof(frame.words));
  return frame;
}

uint64_t FlowHash(const spw_seed& seed, Packet packet, const spw_endpoint& to, uint32_t flow) {
  const auto client = ClientWords(packet, flow);
  const uint32_t ports = spw_bench_client_port(flow) | uint32_t{to.port} << 16;
  return IsV6(packet) ? spw_hash_v6(&seed, client.data(), to.addr, ports, to.proto)
                      : spw_hash_v4(&seed, client[0], to.addr[0], ports, to.proto);
}

spw_bench_walk MakeWalk(uint32_t first, uint32_t flows) {
  if (flows == 1) return {0, 0, 1, first};
  uint32_t stride = static_cast<uint32_t>(flows * 0.6180339887498949) | 1;
  while (std::gcd(stride, flows) != 1) stride++;
  return {0, stride % flows, flows, first};
}

}  // namespace spillway::bench

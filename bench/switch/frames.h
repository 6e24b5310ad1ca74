// SPDX-License-Identifier: Apache-2.0
// The frames a benchmark sends and the flows they belong to. Pure.
//
// A flow is a number; spw_bench_client() and spw_bench_client_port() (bpf/bench_wrapper.h) turn it into
// a client's address and port, in the BPF wrapper and here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "bpf/bench_wrapper.h"
#include "core/endpoint.h"
#include "core/hash.h"

namespace spillway::bench {

enum class TcpKind : uint8_t { kSyn, kFirstAck, kAck };  // kFirstAck: goes on from the SYN's number
enum class Packet : uint8_t { kV4Tcp, kV6Tcp, kV4Udp, kReport };

// "v4tcp", "v6tcp", "v4udp"; a report is a v4udp packet.
std::string ToString(Packet packet);

// Ethernet frame, without its checksum; at least the 60 bytes that Ethernet carries.
size_t FrameBytes(Packet packet);
inline size_t AddressOffset(Packet packet) { return packet == Packet::kV6Tcp ? 38 : 30; }  // destination's
inline size_t AddressBytes(Packet packet) { return packet == Packet::kV6Tcp ? 16 : 4; }

// The headers of a packet to `to`, as the wrapper restores them. Checksums are not those of the flow:
// the switch adjusts them without looking at their value.
spw_bench_frame MakeFrame(Packet packet, const spw_endpoint& to, TcpKind kind);

// The hash by which the data plane knows the flow.
uint64_t FlowHash(const spw_seed& seed, Packet packet, const spw_endpoint& to, uint32_t flow);

// A walk over [first, first + flows).
spw_bench_walk MakeWalk(uint32_t first, uint32_t flows);

}  // namespace spillway::bench

// SPDX-License-Identifier: Apache-2.0
// What a flood does to connections: for each kind of flood and unit policy, how many established flows moved,
// and how many new ones connected, beside how many do under the same flood where nothing is remembered of TCP
// (unit policy host-only, server policy maglev). docs/bench.md. Needs root. One thread, the program's main
// one.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "bench/flood/attack.h"
#include "core/policy.h"
#include "model/pool.h"
#include "report/document.h"

namespace spillway::bench {

// Where a flood is played.
enum class FloodBed : uint8_t {
  kPackets,      // packet_bed.h
  kConnections,  // connection_bed.h
};
const char* Word(FloodBed bed);  // "packets", "connections"

struct FloodBenchOptions {
  std::vector<FloodBed> beds = {FloodBed::kPackets, FloodBed::kConnections};
  std::vector<Attack> attacks{std::begin(kAttacks), std::end(kAttacks)};
  // Of units; empty: all but host-only of packets, and headroom of connections.
  std::vector<spw_unit_policy> policies;
  spw_server_policy server_policy = SPW_SERVER_P2C;
  uint32_t table_times = 10;              // 1 at least
  uint32_t flow_table_entries = 131'072;  // of packets; a power of two
  uint32_t connection_table_entries = 65'536;
  // Of floods packet by packet: one that is over before anything ends, and one that lasts for minutes.
  std::vector<uint32_t> packet_rates = {1'000'000, 10'000};
  uint32_t connection_rate = 100'000;  // packets a second beside connections
};

[[nodiscard]] Result<report::Document> RunFloodBench(
    const FloodBenchOptions& options,
    const std::function<void(double fraction, const std::string& message)>& on_progress);

}  // namespace spillway::bench

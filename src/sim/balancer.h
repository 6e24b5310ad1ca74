// SPDX-License-Identifier: Apache-2.0
// The switch in simulated time: the tables of the data plane and core/'s decisions on them. A switch holds
// 4,096 servers; more of them are several pools, between which a request's hash decides. Not thread-safe.
#pragma once

#include <cstdint>
#include <vector>

#include "core/load.h"
#include "core/policy.h"
#include "sim/layout.h"
#include "sim/scenario/scenario.h"
#include "sim/station.h"

namespace spillway::sim {

class Balancer {
 public:
  Balancer(const Layout& layout, const PolicyChoice& policy, Duration silent_after);

  // Servers (indices of the layout) whose state the choice for this hash reads: one, or two for p2c.
  struct Candidates {
    uint32_t first, second;  // equal when only one is asked
    uint32_t default_unit, second_unit;
  };
  Candidates Ask(uint64_t hash) const;
  // Into the cache: what Ask will read for this hash; what Choose will, of a server.
  void Announce(uint64_t hash) const;
  void Fetch(uint32_t server) const {
    const spw_server& entry = servers_[server];
    const auto* line = reinterpret_cast<const char*>(&entry);
    const auto* end = reinterpret_cast<const char*>(
        &entry.load[layout_.first_unit[server + 1] - layout_.first_unit[server]]);
    for (; line < end; line += 64) __builtin_prefetch(line, 1);
  }
  // The unit of the layout for a new flow, now counted as placed; -1: no unit may take it.
  int Choose(const Candidates& candidates, uint64_t hash, Time now);

  // `server`, `unit` as in the layout; report as its agent sent it, `reborn` if the agent restarted.
  void Accept(uint32_t server, uint32_t unit, const spw_report& report, bool reborn, Time now);
  void SetDown(uint32_t server, uint32_t unit, bool down);

 private:
  // The data plane's clocks start at 1 s, so that beat 0 keeps its meaning, "never".
  static uint64_t Clock(Time now) { return static_cast<uint64_t>(now) + 1'000'000'000; }
  struct Pool {
    uint32_t first_server;
    std::vector<uint16_t> ring;  // unit ids: of the server within the pool
  };
  int Within(uint32_t server, uint32_t default_unit, uint64_t hash, Time now);
  const Pool& PoolOf(uint64_t hash) const;

  const Layout& layout_;
  const PolicyChoice& policy_;
  std::vector<spw_server> servers_;
  std::vector<Pool> pools_;
};

}  // namespace spillway::sim

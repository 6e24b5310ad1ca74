// SPDX-License-Identifier: Apache-2.0
// Frees entries of the flow table that have expired or whose unit is gone, a part at a time, and
// counts what is in use. Entries are freed by compare-and-swap, so a flow that wakes up keeps its own.
#pragma once

#include <cstdint>
#include <functional>

#include "core/flow_table.h"

namespace spillway::switching {

class FlowSweeper {
 public:
  // Sweeps `buckets` of the table from where the last call ended.
  void Sweep(spw_bucket* table, uint32_t table_buckets, uint32_t buckets, uint32_t tick,
             spw_flow_limits limits, const std::function<bool(uint16_t)>& is_alive);

  uint64_t used() const { return used_; }  // entries, as of the last complete round
  uint64_t rounds() const { return rounds_; }

 private:
  uint32_t at_ = 0;
  uint64_t counting_ = 0, used_ = 0, rounds_ = 0;
};

}  // namespace spillway::switching

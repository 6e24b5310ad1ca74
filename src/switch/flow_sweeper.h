// SPDX-License-Identifier: Apache-2.0
// Frees entries of the flow table that have expired or whose unit is gone, a part at a time, counts
// what is in use, and renews the flow filter (core/flow_filter.h): a round clears one side and sets it
// from what lives; the first, which knows nothing of the sides it finds, clears none. Entries are freed
// by compare-and-swap, so a flow that wakes up keeps its own. Closing entries end by their own limit only
// while more than a 64th of the table is in use, else as if they were open: a forged FIN or RST then ends no
// flow.
#pragma once

#include <cstdint>
#include <functional>

#include "core/flow_filter.h"
#include "core/flow_table.h"

namespace spillway::switching {

struct SweptTables {
  spw_bucket* buckets = nullptr;
  uint32_t bucket_count = 0;
  spw_filter_word* filter = nullptr;
  uint32_t filter_words = 0;  // power of two
};

class FlowSweeper {
 public:
  // filter_ticks: between two renewals of the filter, at least. A TCP handshake that leaves the ring is in it
  // before it has an entry, so it must be found there for as long as handshakes take.
  explicit FlowSweeper(uint32_t filter_ticks = 64) : filter_ticks_(filter_ticks) {}

  // Sweeps `buckets` of the table from where the last call ended.
  void Sweep(const SweptTables& tables, uint32_t buckets, uint32_t tick, spw_flow_limits limits,
             const std::function<bool(uint16_t)>& is_alive);

  uint64_t used() const { return used_; }  // entries, as of the last complete round
  uint64_t rounds() const { return rounds_; }

 private:
  void BeginRound(const SweptTables& tables, uint32_t tick);

  uint32_t filter_ticks_, renewed_tick_ = 0;
  int side_ = 0;  // the one that was renewed last
  uint32_t at_ = 0;
  uint64_t counting_ = 0, used_ = 0, rounds_ = 0;
};

}  // namespace spillway::switching

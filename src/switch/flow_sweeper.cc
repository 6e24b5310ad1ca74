// SPDX-License-Identifier: Apache-2.0
#include "flow_sweeper.h"

#include <algorithm>
#include <atomic>

#include "mapped_array.h"

namespace spillway::switching {

namespace {

constexpr uint32_t kSparseShare = 64;  // of the table; by then its filter costs the rest next to nothing

// FIN and RST may be forged, and who closed a connection in earnest costs nobody anything until entries are
// many.
spw_flow_limits ForFill(spw_flow_limits limits, uint64_t used, uint64_t entries) {
  if (used > entries / kSparseShare) return limits;
  const auto open = static_cast<uint16_t>(spw_flow_limit(limits, SPW_FLOW_OPEN));
  const auto closing = static_cast<uint16_t>(spw_flow_limit(limits, SPW_FLOW_CLOSING));
  return spw_make_flow_limits(open, static_cast<uint16_t>(spw_flow_limit(limits, SPW_FLOW_DATAGRAM)),
                              std::max(open, closing));
}

}  // namespace

void FlowSweeper::BeginRound(const SweptTables& tables, uint32_t tick) {
  if (rounds_ == 0) renewed_tick_ = tick;
  if (rounds_ == 0 || tick - renewed_tick_ < filter_ticks_) return;
  renewed_tick_ = tick;
  side_ = 1 - side_;
  for (uint32_t i = 0; i < tables.filter_words; i++) Store(tables.filter[i].side[side_], __u64{0});
  // The entries read from here on are at least as new as the cleared side.
  std::atomic_thread_fence(std::memory_order_seq_cst);
}

void FlowSweeper::Sweep(const SweptTables& tables, uint32_t buckets, uint32_t tick, spw_flow_limits limits,
                        const std::function<bool(uint16_t)>& is_alive) {
  if (at_ == 0) BeginRound(tables, tick);
  limits = ForFill(limits, used_, uint64_t{tables.bucket_count} * SPW_BUCKET_ENTRIES);
  uint32_t end = std::min(tables.bucket_count, at_ + buckets);
  for (; at_ < end; at_++) {
    for (__u64& slot : tables.buckets[at_].entry) {
      __u64 entry = Load(slot);
      if (spw_entry_state(entry) == SPW_FLOW_FREE) continue;
      if (spw_entry_expired(entry, tick, limits) || !is_alive(spw_entry_unit(entry))) {
        if (Replace(slot, entry, entry & SPW_FLOW_OVERFLOW)) continue;
      }
      counting_++;
      if (spw_entry_state(entry) == SPW_FLOW_DATAGRAM) continue;  // looked up without asking the filter
      const uint32_t tag = spw_entry_tag(entry);
      spw_filter_add(&tables.filter[spw_filter_index(tag, tables.filter_words - 1)], tag);
    }
  }
  if (at_ < tables.bucket_count) return;
  used_ = counting_;
  counting_ = 0;
  at_ = 0;
  rounds_++;
}

}  // namespace spillway::switching

// SPDX-License-Identifier: Apache-2.0
#include "flow_sweeper.h"

#include <algorithm>

#include "mapped_array.h"

namespace spillway::switching {

void FlowSweeper::Sweep(spw_bucket* table, uint32_t table_buckets, uint32_t buckets, uint32_t tick,
                        spw_flow_limits limits, const std::function<bool(uint16_t)>& is_alive) {
  uint32_t end = std::min(table_buckets, at_ + buckets);
  for (; at_ < end; at_++) {
    for (__u64& slot : table[at_].entry) {
      __u64 entry = Load(slot);
      if (spw_entry_state(entry) == SPW_FLOW_FREE) continue;
      if (spw_entry_expired(entry, tick, limits) || !is_alive(spw_entry_unit(entry))) {
        if (Replace(slot, entry, entry & SPW_FLOW_OVERFLOW)) continue;
      }
      counting_++;
    }
  }
  if (at_ < table_buckets) return;
  used_ = counting_;
  counting_ = 0;
  at_ = 0;
  rounds_++;
}

}  // namespace spillway::switching

// SPDX-License-Identifier: Apache-2.0
// Which unit a UDP flow is on: the switch's flow table (core/flow_table.h) in this process's memory, for one
// thread. Time comes in as ticks.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/flow_table.h"

namespace spillway::balancer {

class FlowMemory {
 public:
  // Room for 8 flows a bucket; `buckets` is a power of two. A flow unseen for more than `idle_ticks` has
  // ended.
  FlowMemory(uint32_t buckets, spw_flow_limits limits, uint32_t idle_ticks)
      : table_(buckets), mask_(buckets - 1), limits_(limits), idle_ticks_(idle_ticks) {}

  // The flow's unit id; keeps the flow alive.
  std::optional<uint16_t> Find(uint64_t hash, uint32_t tick) {
    const uint32_t primary = spw_flow_primary(hash, mask_);
    __u64* entry = FindIn(primary, hash);
    if (entry == nullptr && (table_[primary].entry[0] & SPW_FLOW_OVERFLOW))
      entry = FindIn(spw_flow_other(primary, spw_flow_tag(hash), mask_), hash);
    if (entry == nullptr) return std::nullopt;
    if (spw_entry_idle(*entry, tick) > idle_ticks_) {
      *entry &= SPW_FLOW_OVERFLOW;
      return std::nullopt;
    }
    *entry = spw_entry_seen(*entry, tick);
    return spw_entry_unit(*entry);
  }

  // A flow that Find did not know. False: there is no room, and it is not remembered.
  bool Insert(uint64_t hash, uint16_t unit, uint32_t tick) {
    const uint32_t tag = spw_flow_tag(hash), primary = spw_flow_primary(hash, mask_);
    const uint64_t entry =
        spw_flow_entry(tag, unit, SPW_FLOW_DATAGRAM, spw_flow_probation(tick, idle_ticks_));
    return spw_is_inserted(spw_flow_insert(&table_[primary], &table_[spw_flow_other(primary, tag, mask_)],
                                           entry, tick, limits_, SPW_BUCKET_ENTRIES));
  }

 private:
  __u64* FindIn(uint32_t bucket, uint64_t hash) {
    const int at = spw_flow_find(&table_[bucket], spw_flow_tag(hash));
    return at < 0 ? nullptr : &table_[bucket].entry[at];
  }

  std::vector<spw_bucket> table_;
  const uint32_t mask_;
  const spw_flow_limits limits_;
  const uint32_t idle_ticks_;
};

}  // namespace spillway::balancer

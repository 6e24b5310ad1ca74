// SPDX-License-Identifier: Apache-2.0
// The flow table against a reference: a std::map of what every flow's entry must be, kept by plain
// rules with the same two buckets of eight. Random inserts, touches, closes and sweeps.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <vector>

#include "core/flow_table.h"

namespace spillway {
namespace {

const spw_flow_limits kLimits = spw_make_flow_limits(300, 120, 40);

struct Flow {
  uint16_t unit;
  spw_flow_state state;
  uint32_t seen;
  uint32_t bucket;
};

class Reference {
 public:
  // Key: the 64 bits that the table can tell apart, (primary bucket, tag).
  using Key = std::pair<uint32_t, uint32_t>;

  const Flow* Find(Key key) const {
    auto it = flows_.find(key);
    return it == flows_.end() ? nullptr : &it->second;
  }
  Flow* Find(Key key) {
    auto it = flows_.find(key);
    return it == flows_.end() ? nullptr : &it->second;
  }

  bool IsExpired(const Flow& f, uint32_t tick) const {
    return tick - f.seen > spw_flow_limit(kLimits, f.state);
  }

  // Idle time of the occupant whose place is taken first; nullopt: there is a free one, or none at all.
  std::optional<uint32_t> LongestExpired(uint32_t bucket, uint32_t tick) const {
    std::optional<uint32_t> longest;
    int count = 0;
    for (const auto& [key, f] : flows_) {
      if (f.bucket != bucket) continue;
      count++;
      if (IsExpired(f, tick)) longest = std::max(longest.value_or(0), tick - f.seen);
    }
    return count < SPW_BUCKET_ENTRIES ? std::nullopt : longest;
  }

  int Live(uint32_t bucket, uint32_t tick) const {
    int live = 0;
    for (const auto& [key, f] : flows_) live += f.bucket == bucket && !IsExpired(f, tick);
    return live;
  }

  std::map<Key, Flow>& flows() { return flows_; }

 private:
  std::map<Key, Flow> flows_;
};

class Table {
 public:
  explicit Table(uint32_t buckets) : buckets_(buckets), mask_(buckets - 1) {}

  __u64* Find(uint32_t primary, uint32_t tag) {
    int at = spw_flow_find(&buckets_[primary], tag);
    if (at >= 0) return &buckets_[primary].entry[at];
    if ((buckets_[primary].entry[0] & SPW_FLOW_OVERFLOW) == 0) return nullptr;
    uint32_t other = spw_flow_other(primary, tag, mask_);
    at = spw_flow_find(&buckets_[other], tag);
    return at >= 0 ? &buckets_[other].entry[at] : nullptr;
  }
  enum spw_flow_insert Insert(uint32_t primary, uint32_t tag, uint16_t unit, spw_flow_state state,
                              uint32_t tick, uint32_t places = SPW_BUCKET_ENTRIES) {
    return spw_flow_insert(&buckets_[primary], &buckets_[spw_flow_other(primary, tag, mask_)],
                           spw_flow_entry(tag, unit, state, tick), tick, kLimits, places);
  }
  uint32_t BucketOf(const __u64* entry) const {
    return static_cast<uint32_t>(
        (reinterpret_cast<const char*>(entry) - reinterpret_cast<const char*>(buckets_.data())) /
        static_cast<long>(sizeof(spw_bucket)));
  }
  std::vector<spw_bucket>& buckets() { return buckets_; }

 private:
  std::vector<spw_bucket> buckets_;
  uint32_t mask_;
};

TEST(FlowTableModel, RandomLifeAgreesWithTheReference) {
  constexpr uint32_t kBuckets = 16;
  std::mt19937_64 random(50);
  Table table(kBuckets);
  Reference model;
  // Tags are distinct across flows, so that a flow is its tag and false matches do not occur.
  std::vector<Reference::Key> keys;
  std::set<uint32_t> tags;
  while (keys.size() < 400) {
    uint64_t hash = random();
    if (tags.insert(spw_flow_tag(hash)).second)
      keys.push_back({spw_flow_primary(hash, kBuckets - 1), spw_flow_tag(hash)});
  }
  uint32_t tick = 40'000;  // beyond 14 bits: stamps wrap
  int refusals = 0, expirations = 0, closings = 0, in_secondary = 0;
  for (int step = 0; step < 200'000; step++) {
    if (random() % 8 == 0) tick += static_cast<uint32_t>(random() % 12);
    Reference::Key key = keys[random() % keys.size()];
    auto [primary, tag] = key;
    __u64* entry = table.Find(primary, tag);
    Flow* flow = model.Find(key);
    ASSERT_EQ(entry != nullptr, flow != nullptr) << "step " << step;
    if (entry != nullptr) {
      ASSERT_EQ(spw_entry_unit(*entry), flow->unit);
      ASSERT_EQ(spw_entry_state(*entry), flow->state);
      ASSERT_EQ(spw_entry_idle(*entry, tick), tick - flow->seen);
      ASSERT_EQ(table.BucketOf(entry), flow->bucket);
      ASSERT_EQ(spw_entry_expired(*entry, tick, kLimits) != 0,
                tick - flow->seen > spw_flow_limit(kLimits, flow->state));
      switch (random() % 3) {
        case 0:  // another packet
          *entry = spw_entry_seen(*entry, tick);
          flow->seen = tick;
          break;
        case 1:  // FIN
          *entry = spw_entry_in_state(spw_entry_seen(*entry, tick), SPW_FLOW_CLOSING);
          flow->seen = tick;
          flow->state = SPW_FLOW_CLOSING;
          closings++;
          break;
      }
    } else {
      auto state = random() % 2 ? SPW_FLOW_OPEN : SPW_FLOW_DATAGRAM;
      uint16_t unit = static_cast<uint16_t>(random() % SPW_MAX_UNITS);
      uint32_t other = spw_flow_other(primary, tag, kBuckets - 1);
      // Home below the mark; else the emptier. Home on a tie.
      int live_here = model.Live(primary, tick), live_there = model.Live(other, tick);
      bool home = live_here < SPW_BUCKET_HOME || live_there >= live_here;
      const uint32_t places = random() % 2 ? SPW_BUCKET_ENTRIES : SPW_BUCKET_DATAGRAM;
      const auto reused = model.LongestExpired(home ? primary : other, tick);
      enum spw_flow_insert result = table.Insert(primary, tag, unit, state, tick, places);
      if (static_cast<uint32_t>(home ? live_here : live_there) >= places) {
        ASSERT_EQ(result, SPW_INSERT_FULL) << "step " << step;
        for (const auto& [k, f] : model.flows()) ASSERT_NE(table.Find(k.first, k.second), nullptr);
        refusals++;
        continue;
      }
      ASSERT_TRUE(spw_is_inserted(result)) << "step " << step;
      __u64* placed = table.Find(primary, tag);
      ASSERT_NE(placed, nullptr) << "step " << step;
      ASSERT_EQ(table.BucketOf(placed), home ? primary : other) << "step " << step;
      in_secondary += !home;
      if (reused) {
        // Whoever lost its entry must have been the longest expired; ties leave a choice.
        int lost = 0;
        for (auto it = model.flows().begin(); it != model.flows().end();) {
          if (table.Find(it->first.first, it->first.second) != nullptr) {
            ++it;
            continue;
          }
          ASSERT_EQ(tick - it->second.seen, *reused) << "step " << step;
          ASSERT_EQ(it->second.bucket, home ? primary : other);
          expirations++;
          it = model.flows().erase(it);
          lost++;
        }
        ASSERT_EQ(lost, 1) << "step " << step;
      }
      model.flows()[key] = {unit, state, tick, home ? primary : other};
    }
    if (step % 1000 == 999) {  // a sweep
      for (spw_bucket& bucket : table.buckets()) {
        for (__u64& word : bucket.entry) {
          if (spw_entry_state(word) != SPW_FLOW_FREE && spw_entry_expired(word, tick, kLimits))
            word &= SPW_FLOW_OVERFLOW;
        }
      }
      std::erase_if(model.flows(), [&](const auto& item) {
        return tick - item.second.seen > spw_flow_limit(kLimits, item.second.state);
      });
      for (const auto& [k, f] : model.flows()) ASSERT_NE(table.Find(k.first, k.second), nullptr);
    }
  }
  EXPECT_GT(refusals, 1000);
  EXPECT_GT(expirations, 100);
  EXPECT_GT(closings, 1000);
  EXPECT_GT(in_secondary, 1000);
}

// Buckets fill up evenly, so flows find no place only when the table is nearly full.
TEST(FlowTableModel, PlacesRunOutOnlyBeyondThreeQuartersFull) {
  std::mt19937_64 random(51);
  constexpr uint32_t kBuckets = 4096, kEntries = kBuckets * SPW_BUCKET_ENTRIES;
  Table table(kBuckets);
  uint32_t refused = 0;
  for (uint32_t i = 1; i <= kEntries * 3 / 4; i++) {
    uint64_t hash = random();
    auto result = table.Insert(spw_flow_primary(hash, kBuckets - 1), spw_flow_tag(hash), 1, SPW_FLOW_OPEN, 7);
    refused += result == SPW_INSERT_FULL;
    if (i == kEntries * 60 / 100) {
      EXPECT_EQ(refused, 0u);
    }
  }
  EXPECT_LE(refused, kEntries / 1000);
}

}  // namespace
}  // namespace spillway

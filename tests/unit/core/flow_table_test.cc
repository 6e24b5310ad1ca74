// SPDX-License-Identifier: Apache-2.0
// The flow table's words and one pair of buckets: packing, who gives way to whom, probation, the
// overflow bit, and how often an absent flow is found by mistake.
#include "core/flow_table.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <set>

namespace spillway {
namespace {

constexpr uint32_t kTick = 5000;
const spw_flow_limits kLimits = spw_make_flow_limits(1000, 500, 100);

uint64_t Entry(uint32_t tag, uint16_t unit, spw_flow_state state, uint32_t idle) {
  return spw_flow_entry(tag, unit, state, kTick - idle);
}

uint32_t RandomTag(std::mt19937_64& random) { return spw_flow_tag(random()); }

struct Pair {
  spw_bucket primary{}, secondary{};

  enum spw_flow_insert Insert(uint32_t tag, uint32_t places = SPW_BUCKET_ENTRIES) {
    return spw_flow_insert(&primary, &secondary, spw_flow_entry(tag, 1, SPW_FLOW_OPEN, kTick), kTick, kLimits,
                           places);
  }
  bool Has(uint32_t tag) const {
    if (spw_flow_find(&primary, tag) >= 0) return true;
    return (primary.entry[0] & SPW_FLOW_OVERFLOW) != 0 && spw_flow_find(&secondary, tag) >= 0;
  }
};

TEST(FlowEntry, EveryFieldSurvivesPacking) {
  std::mt19937_64 random(30);
  for (int i = 0; i < 5000; i++) {
    uint32_t tag = RandomTag(random), tick = static_cast<uint32_t>(random());
    uint16_t unit = static_cast<uint16_t>(random() % SPW_MAX_UNITS);
    auto state = static_cast<spw_flow_state>(random() % 8);
    uint64_t entry = spw_flow_entry(tag, unit, state, tick);
    ASSERT_EQ(spw_entry_tag(entry), tag);
    ASSERT_EQ(spw_entry_unit(entry), unit);
    ASSERT_EQ(spw_entry_state(entry), state);
    ASSERT_EQ(entry & SPW_FLOW_OVERFLOW, 0u);
    uint64_t marked = entry | SPW_FLOW_OVERFLOW;
    ASSERT_EQ(spw_entry_unit(marked), unit) << "the overflow bit is no part of the unit";
    ASSERT_EQ(spw_entry_seen(marked, tick + 7) & SPW_FLOW_OVERFLOW, SPW_FLOW_OVERFLOW);
    for (spw_flow_state then : {SPW_FLOW_OPEN, SPW_FLOW_CLOSING, SPW_FLOW_HALF_OPEN}) {
      ASSERT_EQ(spw_entry_in_state(marked, then), spw_flow_entry(tag, unit, then, tick) | SPW_FLOW_OVERFLOW);
    }
  }
}

TEST(FlowEntry, IdleTimeWrapsAndForgivesClockSkew) {
  for (uint32_t base : {0u, 16383u, 16384u, 0xffffffffu}) {
    uint64_t entry = spw_flow_entry(1, 1, SPW_FLOW_OPEN, base);
    EXPECT_EQ(spw_entry_idle(entry, base), 0u);
    EXPECT_EQ(spw_entry_idle(entry, base + 1), 1u);
    EXPECT_EQ(spw_entry_idle(entry, base + 16000), 16000u);
    EXPECT_EQ(spw_entry_idle(entry, base - 1), 0u) << "another CPU's clock was ahead";
  }
}

TEST(FlowEntry, ExpiresByTheLimitOfItsOwnState) {
  struct {
    spw_flow_state state;
    uint32_t limit;
  } cases[] = {{SPW_FLOW_OPEN, 1000},     {SPW_FLOW_DATAGRAM, 500},
               {SPW_FLOW_CLOSING, 100},   {SPW_FLOW_CLOSED, 100},
               {SPW_FLOW_UNPROVEN, 1000}, {SPW_FLOW_HALF_OPEN, SPW_FLOW_PROBATION_TICKS}};
  for (auto [state, limit] : cases) {
    EXPECT_FALSE(spw_entry_expired(Entry(1, 1, state, limit), kTick, kLimits));
    EXPECT_TRUE(spw_entry_expired(Entry(1, 1, state, limit + 1), kTick, kLimits));
  }
}

TEST(FlowEntry, OtherBucketLeadsBack) {
  std::mt19937_64 random(31);
  for (uint32_t mask : {1u, 3u, 1023u, (1u << 21) - 1}) {
    for (int i = 0; i < 2000; i++) {
      uint32_t tag = RandomTag(random), primary = static_cast<uint32_t>(random()) & mask;
      uint32_t other = spw_flow_other(primary, tag, mask);
      ASSERT_NE(other, primary) << "two choices must be two buckets";
      ASSERT_LE(other, mask);
      ASSERT_EQ(spw_flow_other(other, tag, mask), primary);
    }
  }
}

// The order, each step against the next: free, longest expired; a live entry never.
TEST(FlowTable, TakesFreeAndExpiredPlacesAndNoLiveOnes) {
  Pair p;
  for (uint32_t i = 0; i < 8; i++) {
    p.primary.entry[i] = Entry(100 + i, 1, SPW_FLOW_OPEN, 10 + i);
    p.secondary.entry[i] = Entry(200 + i, 1, SPW_FLOW_OPEN, 1000);  // idle, and live
  }
  p.primary.entry[2] = 0;                                   // free
  p.primary.entry[5] = Entry(105, 1, SPW_FLOW_OPEN, 1001);  // expired
  p.primary.entry[3] = Entry(103, 1, SPW_FLOW_CLOSING, 101);
  p.primary.entry[6] = Entry(106, 1, SPW_FLOW_CLOSING, 100);  // closing, and live
  p.secondary.entry[3] = Entry(203, 1, SPW_FLOW_DATAGRAM, 500);
  p.secondary.entry[4] = Entry(204, 1, SPW_FLOW_HALF_OPEN, SPW_FLOW_PROBATION_TICKS);
  for (uint32_t at : {2, 5, 3}) {
    EXPECT_TRUE(spw_is_inserted(p.Insert(at)));
    EXPECT_EQ(spw_entry_tag(p.primary.entry[at]), at);
  }
  EXPECT_FALSE(p.primary.entry[0] & SPW_FLOW_OVERFLOW);
  const Pair before = p;
  EXPECT_EQ(p.Insert(9), SPW_INSERT_FULL);
  EXPECT_EQ(std::memcmp(&before, &p, sizeof(p)), 0);
  p.secondary.entry[4] = Entry(204, 1, SPW_FLOW_HALF_OPEN, SPW_FLOW_PROBATION_TICKS + 1);
  EXPECT_TRUE(spw_is_inserted(p.Insert(9)));
  EXPECT_EQ(spw_entry_tag(p.secondary.entry[4]), 9u);
  EXPECT_TRUE(p.primary.entry[0] & SPW_FLOW_OVERFLOW);
}

// An unproven flow gives way where all places are taken, the longest silent first, and not before a minute.
TEST(FlowTable, UnprovenFlowsYieldWhereBothBucketsAreFull) {
  Pair p;
  const auto fill = [&](uint32_t idle) {
    for (uint32_t i = 0; i < 8; i++) {
      p.primary.entry[i] = Entry(100 + i, 1, SPW_FLOW_OPEN, 900);
      p.secondary.entry[i] = Entry(200 + i, 1, SPW_FLOW_OPEN, 900);
    }
    p.secondary.entry[2] = Entry(202, 1, SPW_FLOW_UNPROVEN, idle);
    p.secondary.entry[5] = Entry(205, 1, SPW_FLOW_UNPROVEN, idle + 1);
  };
  fill(SPW_FLOW_PROBATION_TICKS - 1);
  EXPECT_EQ(p.Insert(1), SPW_INSERT_FULL);
  fill(SPW_FLOW_PROBATION_TICKS);
  EXPECT_EQ(p.Insert(1), SPW_INSERTED_DISPLACED);
  EXPECT_EQ(spw_entry_tag(p.secondary.entry[5]), 1u);
  fill(900);
  p.primary.entry[7] = 0;
  EXPECT_EQ(p.Insert(1), SPW_INSERTED_PRESSED) << "a free place first";
  EXPECT_EQ(p.Insert(2, SPW_BUCKET_DATAGRAM), SPW_INSERTED_DISPLACED);
}

TEST(FlowTable, AFlowNeedsNoFurtherProofWhereThereIsRoom) {
  Pair p;
  for (uint32_t i = 0; i < 8; i++) {
    const auto result =
        spw_flow_insert(&p.primary, &p.secondary, spw_flow_entry(1 + i, 1, SPW_FLOW_UNPROVEN, kTick), kTick,
                        kLimits, SPW_BUCKET_ENTRIES);
    EXPECT_EQ(result, SPW_INSERTED);
    int open = 0;
    for (__u64 entry : p.primary.entry) open += spw_entry_state(entry) == SPW_FLOW_OPEN;
    for (__u64 entry : p.secondary.entry) open += spw_entry_state(entry) == SPW_FLOW_OPEN;
    EXPECT_EQ(open, std::min<int>(static_cast<int>(i) + 1, SPW_BUCKET_TRUSTING));
  }
}

TEST(FlowTable, SaysWhenPlacesAreFew) {
  Pair p;
  for (uint32_t i = 0; i < 16; i++)
    EXPECT_EQ(p.Insert(1 + i), i < 14 ? SPW_INSERTED : SPW_INSERTED_PRESSED) << i;
}

TEST(FlowTable, DatagramsLeavePlacesToOthers) {
  Pair p;
  for (uint32_t i = 0; i < 2 * SPW_BUCKET_DATAGRAM; i++)
    EXPECT_TRUE(spw_is_inserted(p.Insert(100 + i, SPW_BUCKET_DATAGRAM))) << i;
  EXPECT_EQ(p.Insert(200, SPW_BUCKET_DATAGRAM), SPW_INSERT_FULL);
  for (uint32_t i = 0; i < 2 * (SPW_BUCKET_ENTRIES - SPW_BUCKET_DATAGRAM); i++)
    EXPECT_TRUE(spw_is_inserted(p.Insert(300 + i))) << i;
  EXPECT_EQ(p.Insert(400), SPW_INSERT_FULL);
}

TEST(FlowTable, AnExpiredEntryAnywhereSparesALiveOne) {
  Pair p;
  for (uint32_t i = 0; i < 8; i++) {
    p.primary.entry[i] = Entry(100 + i, 1, SPW_FLOW_OPEN, 900);
    p.secondary.entry[i] = Entry(200 + i, 1, SPW_FLOW_OPEN, 1);
  }
  p.secondary.entry[7] = Entry(207, 1, SPW_FLOW_CLOSING, 101);
  EXPECT_TRUE(spw_is_inserted(p.Insert(1)));
  EXPECT_EQ(spw_entry_tag(p.secondary.entry[7]), 1u);
}

TEST(FlowTable, AnEntryInTheSecondaryBucketIsAlwaysFound) {
  std::mt19937_64 random(32);
  for (int round = 0; round < 500; round++) {
    Pair p;
    std::set<uint32_t> tags;
    while (tags.size() < 16) {
      uint32_t tag = RandomTag(random);
      if (!tags.insert(tag).second) continue;
      ASSERT_TRUE(spw_is_inserted(p.Insert(tag)));
      for (uint32_t t : tags) ASSERT_TRUE(p.Has(t));
    }
    // Whatever becomes of the first entry, the bit stays and the eight over there are found.
    p.primary.entry[0] &= SPW_FLOW_OVERFLOW;
    ASSERT_TRUE(spw_is_inserted(p.Insert(7)));
    ASSERT_TRUE(p.primary.entry[0] & SPW_FLOW_OVERFLOW);
    p.primary.entry[0] = spw_entry_in_state(spw_entry_seen(p.primary.entry[0], kTick + 3), SPW_FLOW_CLOSING);
    uint32_t found = 0;
    for (uint32_t t : tags) found += p.Has(t);
    ASSERT_EQ(found, 15u);
  }
}

TEST(FlowTable, ProbationEndsAfterItsTicksUnlessConfirmed) {
  for (uint32_t limit : {1u, 57u, 60u, 61u, 1000u, 3600u, 13413u}) {
    spw_flow_limits limits = spw_make_flow_limits(static_cast<uint16_t>(limit), 0, 0);
    uint64_t entry = spw_flow_entry(1, 1, SPW_FLOW_OPEN, spw_flow_probation(kTick, limit));
    uint32_t life = std::min<uint32_t>(limit, SPW_FLOW_PROBATION_TICKS);
    EXPECT_FALSE(spw_entry_expired(entry, kTick + life, limits)) << limit;
    EXPECT_TRUE(spw_entry_expired(entry, kTick + life + 1, limits)) << limit;
    EXPECT_FALSE(spw_entry_expired(spw_entry_seen(entry, kTick + life), kTick + life + limit, limits))
        << limit;
  }
}

TEST(FlowTable, FreeEntriesAreNobodys) {
  spw_bucket bucket{};
  EXPECT_EQ(spw_flow_find(&bucket, 0), -1) << "tag 0 must not meet an empty entry";
  bucket.entry[0] = SPW_FLOW_OVERFLOW;
  EXPECT_EQ(spw_flow_find(&bucket, 0), -1);
  bucket.entry[7] = spw_flow_entry(0, 0, SPW_FLOW_CLOSING, 0);
  EXPECT_EQ(spw_flow_find(&bucket, 0), 7);
}

// The header says: an absent flow is found with probability <= 16 * 2^-31 for a 31-bit tag. The same
// count with the tag cut to 10 bits must be <= 16 * 2^-10 per look-up of a full pair of buckets:
// expectation 1 - (1 - 2^-10)^16 = 1.551 %; of 200,000 trials 3,101, sigma 55.
TEST(FlowTable, FalseMatchesAreAsRareAsTheTagSays) {
  std::mt19937_64 random(33);
  constexpr int kTrials = 200'000;
  constexpr uint32_t kTagMask = 1023;
  int matches = 0;
  Pair p;
  p.primary.entry[0] = SPW_FLOW_OVERFLOW;
  for (int trial = 0; trial < kTrials; trial++) {
    for (auto* bucket : {&p.primary, &p.secondary}) {
      for (auto& entry : bucket->entry) {
        entry = (entry & SPW_FLOW_OVERFLOW) |
                spw_flow_entry(static_cast<uint32_t>(random()) & kTagMask, 1, SPW_FLOW_OPEN, kTick);
      }
    }
    matches += p.Has(static_cast<uint32_t>(random()) & kTagMask);
  }
  EXPECT_NEAR(matches, 3101, 6 * 55);
}

}  // namespace
}  // namespace spillway

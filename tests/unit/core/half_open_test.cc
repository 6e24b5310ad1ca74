// SPDX-License-Identifier: Apache-2.0
// The half-open table's buckets: what is remembered, for whom, for how long, and who is overwritten.
#include "core/half_open.h"

#include <gtest/gtest.h>

#include <random>

namespace spillway {
namespace {

constexpr uint64_t kHash = 0x1234567890abcdefULL;

uint64_t Hash(uint32_t tag) { return uint64_t{tag} << 32 | 0xabcdef; }

void Remember(spw_half_open& bucket, uint64_t hash, uint16_t unit, uint16_t stamp) {
  int found = spw_half_open_find(&bucket, hash);
  uint64_t word = spw_half_open_word(hash, unit, stamp);
  if (found >= 0)
    bucket.word[found] = word;
  else
    spw_half_open_push(&bucket, word);
}

TEST(HalfOpen, TheFlowFindsItsUnit) {
  for (uint32_t unit : {0u, 1u, 32767u}) {
    for (uint32_t stamp : {0u, 1u, 511u}) {
      spw_half_open bucket{};
      Remember(bucket, kHash, static_cast<uint16_t>(unit), static_cast<uint16_t>(stamp));
      int at = spw_half_open_find(&bucket, kHash);
      ASSERT_GE(at, 0);
      EXPECT_EQ(spw_half_open_unit(bucket.word[at], static_cast<uint16_t>(stamp)), unit);
    }
  }
}

TEST(HalfOpen, AnEmptyWordIsNobodys) {
  spw_half_open bucket{};
  EXPECT_EQ(spw_half_open_find(&bucket, 0), -1);
  EXPECT_EQ(spw_half_open_find(&bucket, kHash), -1);
}

TEST(HalfOpen, AnotherTagIsAnotherFlow) {
  spw_half_open bucket{};
  Remember(bucket, kHash, 9, 100);
  for (int bit = 24; bit < 64; bit++) EXPECT_EQ(spw_half_open_find(&bucket, kHash ^ 1ULL << bit), -1);
}

TEST(HalfOpen, ExpiresAfterItsAgeAlsoAcrossTheWrap) {
  for (uint32_t start : {0u, 100u, 400u, 511u}) {
    uint64_t word = spw_half_open_word(kHash, 9, static_cast<uint16_t>(start));
    auto at = [&](uint32_t age) { return spw_half_open_unit(word, static_cast<uint16_t>(start + age)); };
    EXPECT_EQ(at(0), 9);
    EXPECT_EQ(at(SPW_HALF_OPEN_AGE), 9);
    EXPECT_EQ(at(SPW_HALF_OPEN_AGE + 1), SPW_NO_UNIT) << start;
    EXPECT_EQ(at(511), SPW_NO_UNIT);
  }
}

// 64 s: more than the 63 s after which Linux gives up on a SYN, in stamps of 2^28 ns.
TEST(HalfOpen, OutlivesTheLastRetry) {
  EXPECT_GE((uint64_t{SPW_HALF_OPEN_AGE} << SPW_HALF_OPEN_STAMP_SHIFT), 63'000'000'000ULL);
  EXPECT_EQ(spw_half_open_stamp(5ULL << SPW_HALF_OPEN_STAMP_SHIFT), 5);
}

TEST(HalfOpen, EightNewerHandshakesAreNeededToLoseOne) {
  spw_half_open bucket{};
  for (uint32_t i = 0; i < 100; i++) {
    Remember(bucket, Hash(1000 + i), static_cast<uint16_t>(i), static_cast<uint16_t>((500 + i) % 512));
    for (uint32_t back = 0; back < 8 && back <= i; back++) {
      ASSERT_GE(spw_half_open_find(&bucket, Hash(1000 + i - back)), 0) << i << " " << back;
    }
    if (i >= 8) {
      ASSERT_EQ(spw_half_open_find(&bucket, Hash(1000 + i - 8)), -1) << "first in, first out";
    }
  }
}

TEST(HalfOpen, AForgottenWordsPlaceIsFilledBeforeAnybodyIsLost) {
  spw_half_open bucket{};
  for (uint32_t i = 0; i < 8; i++) Remember(bucket, Hash(1000 + i), 1, 5);
  bucket.word[spw_half_open_find(&bucket, Hash(1003))] = 0;
  Remember(bucket, Hash(2000), 1, 5);
  for (uint32_t i = 0; i < 8; i++) EXPECT_EQ(spw_half_open_find(&bucket, Hash(1000 + i)) >= 0, i != 3) << i;
  EXPECT_EQ(spw_half_open_find(&bucket, Hash(2000)), 0);
}

TEST(HalfOpen, AFlowNeverHasTwoWords) {
  std::mt19937_64 random(35);
  spw_half_open bucket{};
  for (int i = 0; i < 5000; i++) {
    Remember(bucket, Hash(static_cast<uint32_t>(1 + random() % 12)), static_cast<uint16_t>(random() % 100),
             static_cast<uint16_t>(i));
    for (uint32_t tag = 1; tag <= 12; tag++) {
      int count = 0;
      for (__u64 word : bucket.word) count += word >> 32 == tag;
      ASSERT_LE(count, 1);
    }
  }
}

TEST(HalfOpen, TheIndexCoversTheTable) {
  EXPECT_EQ(spw_half_open_index(0), 0u);
  EXPECT_EQ(spw_half_open_index(~0ULL), static_cast<uint32_t>(SPW_HALF_OPEN_BUCKETS - 1));
}

}  // namespace
}  // namespace spillway

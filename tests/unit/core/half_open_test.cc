// SPDX-License-Identifier: Apache-2.0
// The half-open table's buckets: what is remembered, for whom, for how long, and who is overwritten.
#include "core/half_open.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>

namespace spillway {
namespace {

constexpr uint64_t kHash = 0x1234567890abcdefULL;
constexpr uint32_t kIsn = 0x89abcdef;

uint64_t Hash(uint32_t tag) { return uint64_t{tag} << 40 | 0xabcdef; }

// As the data plane does with a handshake on the ring.
void Pass(spw_half_open& bucket, uint64_t hash, uint16_t unit, uint16_t stamp) {
  int found = spw_half_open_find(&bucket, hash, kIsn);
  uint64_t word = spw_half_open_word(hash, kIsn, unit, stamp);
  if (found >= 0)
    bucket.word[found] = word;
  else
    spw_half_open_push(&bucket, word);
}

TEST(HalfOpen, TheFlowFindsItsUnit) {
  for (uint32_t unit : {0u, 1u, 32767u}) {
    for (uint32_t stamp : {0u, 1u, 511u}) {
      spw_half_open bucket{};
      Pass(bucket, kHash, static_cast<uint16_t>(unit), static_cast<uint16_t>(stamp));
      int at = spw_half_open_find(&bucket, kHash, kIsn);
      ASSERT_GE(at, 0);
      EXPECT_EQ(spw_half_open_unit(bucket.word[at], static_cast<uint16_t>(stamp)), unit);
    }
  }
}

// Of the one handshake whose word would be that of an empty place: unit 0 is not none.
TEST(HalfOpen, NoHandshakesWordIsThatOfAnEmptyPlace) {
  const uint64_t word = spw_half_open_word(0, 0, 0, 0);
  EXPECT_NE(word, 0u);
  EXPECT_EQ(spw_half_open_unit(word, 0), 0);
  EXPECT_FALSE(spw_half_open_is_older(word, 0, 1));
  spw_half_open bucket{};
  spw_half_open_push(&bucket, word);
  EXPECT_GE(spw_half_open_find(&bucket, 0, 0), 0);
  EXPECT_EQ(spw_half_open_proof(&bucket, 0, 1), word);
}

TEST(HalfOpen, AnEmptyWordNamesNoUnit) {
  EXPECT_EQ(spw_half_open_unit_of(0, 0, 0), SPW_NO_UNIT);
  EXPECT_EQ(spw_half_open_unit_of(0, kHash, 0), SPW_NO_UNIT);
  const uint64_t word = spw_half_open_word(kHash, kIsn, 9, 100);
  EXPECT_EQ(spw_half_open_unit_of(word, kHash, 100), 9);
  EXPECT_EQ(spw_half_open_unit_of(word, kHash ^ 1ULL << 40, 100), SPW_NO_UNIT);
  EXPECT_EQ(spw_half_open_unit_of(word, kHash, (100 + SPW_HALF_OPEN_AGE + 1) & 511), SPW_NO_UNIT);
}

TEST(HalfOpen, AnEmptyWordIsNobodys) {
  spw_half_open bucket{};
  EXPECT_EQ(spw_half_open_find(&bucket, 0, 0), -1);
  EXPECT_EQ(spw_half_open_find(&bucket, kHash, kIsn), -1);
  EXPECT_EQ(spw_half_open_proof(&bucket, 0, 1), 0u);
}

TEST(HalfOpen, AnotherTagOrNumberIsAnotherHandshake) {
  spw_half_open bucket{};
  Pass(bucket, kHash, 9, 100);
  for (int bit = 40; bit < 64; bit++) {
    EXPECT_EQ(spw_half_open_find(&bucket, kHash ^ 1ULL << bit, kIsn), -1);
    EXPECT_EQ(spw_half_open_proof(&bucket, kHash ^ 1ULL << bit, kIsn + 1), 0u);
  }
  for (int bit = 16; bit < 32; bit++) EXPECT_EQ(spw_half_open_find(&bucket, kHash, kIsn ^ 1u << bit), -1);
}

// What comes first after a SYN is its number and one, or, if packets were lost, a first window later.
TEST(HalfOpen, APacketProvesItselfByItsSequenceNumber) {
  for (uint32_t isn : {0u, 0x0000ffffu, 0x7fff0000u, 0xfffffff0u, 0xffffffffu}) {
    spw_half_open bucket{};
    const uint64_t word = spw_half_open_word(kHash, isn, 9, 100);
    spw_half_open_push(&bucket, word);
    for (uint32_t sent : {0u, 1u, 1460u, 14'600u, 65'535u})
      EXPECT_EQ(spw_half_open_proof(&bucket, kHash, isn + 1 + sent), word) << isn << " " << sent;
    for (uint32_t off : {131'072u, 1u << 20, 1u << 31, 0u - 65'537u})
      EXPECT_EQ(spw_half_open_proof(&bucket, kHash, isn + 1 + off), 0u) << isn << " " << off;
  }
  std::mt19937_64 random(36);
  spw_half_open bucket{};
  spw_half_open_push(&bucket, spw_half_open_word(kHash, kIsn, 9, 100));
  int guessed = 0;
  for (int i = 0; i < 1'000'000; i++)
    guessed += spw_half_open_proof(&bucket, kHash, static_cast<uint32_t>(random())) != 0;
  EXPECT_NEAR(guessed, 30.5, 6 * 5.5) << "one in 2^15";
}

TEST(HalfOpen, ExpiresAfterItsAgeAlsoAcrossTheWrap) {
  for (uint32_t start : {0u, 100u, 400u, 511u}) {
    uint64_t word = spw_half_open_word(kHash, kIsn, 9, static_cast<uint16_t>(start));
    auto at = [&](uint32_t age) { return spw_half_open_unit(word, static_cast<uint16_t>(start + age)); };
    EXPECT_EQ(at(0), 9);
    EXPECT_EQ(at(SPW_HALF_OPEN_AGE), 9);
    EXPECT_EQ(at(SPW_HALF_OPEN_AGE + 1), SPW_NO_UNIT) << start;
    EXPECT_EQ(at(511 - SPW_HALF_OPEN_AHEAD), SPW_NO_UNIT);
    for (uint32_t behind = 1; behind <= SPW_HALF_OPEN_AHEAD; behind++)
      EXPECT_EQ(at(512 - behind), 9) << "by a clock that is behind";
  }
}

// 64 s: more than the 63 s after which Linux gives up on a SYN, in stamps of 2^28 ns.
TEST(HalfOpen, OutlivesTheLastRetry) {
  EXPECT_GE((uint64_t{SPW_HALF_OPEN_AGE} << SPW_HALF_OPEN_STAMP_SHIFT), 63'000'000'000ULL);
  EXPECT_EQ(spw_half_open_stamp(5ULL << SPW_HALF_OPEN_STAMP_SHIFT), 5);
}

constexpr uint32_t kPassing = SPW_HALF_OPEN_WAYS - SPW_HALF_OPEN_KEPT_WAYS;

TEST(HalfOpen, OfThoseThatPassTheOldestIsOverwritten) {
  spw_half_open bucket{};
  for (uint32_t i = 0; i < 100; i++) {
    Pass(bucket, Hash(1000 + i), static_cast<uint16_t>(i), static_cast<uint16_t>((500 + i) % 512));
    for (uint32_t back = 0; back < kPassing && back <= i; back++)
      ASSERT_GE(spw_half_open_find(&bucket, Hash(1000 + i - back), kIsn), 0) << i << " " << back;
    if (i >= kPassing) {
      ASSERT_EQ(spw_half_open_find(&bucket, Hash(1000 + i - kPassing), kIsn), -1) << "first in, first out";
    }
  }
  for (uint32_t i = 0; i < SPW_HALF_OPEN_KEPT_WAYS; i++) EXPECT_EQ(bucket.word[i], 0u) << "not theirs";
}

TEST(HalfOpen, AForgottenWordsPlaceIsFilledBeforeAnybodyIsLost) {
  spw_half_open bucket{};
  for (uint32_t i = 0; i < kPassing; i++) Pass(bucket, Hash(1000 + i), 1, 5);
  bucket.word[spw_half_open_find(&bucket, Hash(1001), kIsn)] = 0;
  Pass(bucket, Hash(2000), 1, 5);
  for (uint32_t i = 0; i < kPassing; i++)
    EXPECT_EQ(spw_half_open_find(&bucket, Hash(1000 + i), kIsn) >= 0, i != 1) << i;
  EXPECT_EQ(spw_half_open_find(&bucket, Hash(2000), kIsn), SPW_HALF_OPEN_KEPT_WAYS);
}

TEST(HalfOpen, AHandshakeNeverHasTwoWords) {
  std::mt19937_64 random(35);
  spw_half_open bucket{};
  for (int i = 0; i < 5000; i++) {
    Pass(bucket, Hash(static_cast<uint32_t>(1 + random() % 12)), static_cast<uint16_t>(random() % 100),
         static_cast<uint16_t>(i));
    for (uint32_t tag = 1; tag <= 12; tag++) {
      int count = 0;
      for (__u64 word : bucket.word) count += word >> 40 == tag;
      ASSERT_LE(count, 1);
    }
  }
}

TEST(HalfOpen, AYoungWordThatIsKeptIsNotOverwritten) {
  for (uint32_t start : {0u, 300u, 508u}) {
    const auto at = [&](uint32_t age) { return static_cast<uint16_t>((start + age) % 512); };
    spw_half_open bucket{};
    for (uint32_t i = 0; i < SPW_HALF_OPEN_KEPT_WAYS; i++) {
      const int room = spw_half_open_room(&bucket, at(0));
      ASSERT_GE(room, 0);
      EXPECT_TRUE(
          spw_half_open_keep(&bucket.word[room], spw_half_open_word(Hash(1 + i), kIsn, 1, at(0)), at(0)));
    }
    for (uint32_t age = 0; age <= SPW_HALF_OPEN_KEPT; age++) {
      EXPECT_EQ(spw_half_open_room(&bucket, at(age)), -1) << age;
      EXPECT_FALSE(
          spw_half_open_keep(&bucket.word[0], spw_half_open_word(Hash(9), kIsn, 1, at(age)), at(age)));
    }
    for (uint32_t behind = 1; behind <= SPW_HALF_OPEN_AHEAD; behind++)
      EXPECT_EQ(spw_half_open_room(&bucket, at(512 - behind)), -1) << "by a clock that is behind";
    const uint16_t later = at(SPW_HALF_OPEN_KEPT + 1);
    EXPECT_TRUE(spw_half_open_keep(&bucket.word[2], spw_half_open_word(Hash(3), kIsn, 1, at(3)), at(3)))
        << "its own, made young again";
    EXPECT_EQ(spw_half_open_room(&bucket, later), 0);
    EXPECT_FALSE(spw_half_open_keep(&bucket.word[2], spw_half_open_word(Hash(9), kIsn, 1, later), later));
    EXPECT_TRUE(spw_half_open_keep(&bucket.word[0], spw_half_open_word(Hash(9), kIsn, 1, later), later));
    EXPECT_EQ(spw_half_open_find(&bucket, Hash(1), kIsn), -1);
  }
}

// Of a handshake of the same flow with another number, as long as nobody may take its place.
TEST(HalfOpen, ASiblingIsFoundWhileItIsKeptAndYoung) {
  spw_half_open bucket{};
  const uint16_t now = 100;
  bucket.word[2] = spw_half_open_word(kHash, kIsn, 9, now);
  EXPECT_EQ(spw_half_open_find(&bucket, kHash, kIsn + (1 << 20)), -1);
  EXPECT_EQ(spw_half_open_sibling(&bucket, kHash, now), 2);
  EXPECT_EQ(spw_half_open_sibling(&bucket, kHash, now + SPW_HALF_OPEN_KEPT), 2);
  EXPECT_EQ(spw_half_open_sibling(&bucket, kHash, now + SPW_HALF_OPEN_KEPT + 1), -1);
  EXPECT_EQ(spw_half_open_sibling(&bucket, kHash ^ 1ULL << 40, now), -1);
  bucket = {};
  bucket.word[SPW_HALF_OPEN_KEPT_WAYS] = spw_half_open_word(kHash, kIsn, 9, now);
  EXPECT_EQ(spw_half_open_sibling(&bucket, kHash, now), -1) << "passing: it is on the ring, or over";
}

TEST(HalfOpen, AWordIsReplacedByItsOwnAlone) {
  const uint64_t own = spw_half_open_word(kHash, kIsn, 9, 100);
  const uint64_t later = spw_half_open_word(kHash, kIsn, 8, 110);
  __u64 place = own;
  EXPECT_TRUE(spw_half_open_replace(&place, later, later));
  EXPECT_EQ(place, later);
  const uint64_t other = spw_half_open_word(Hash(3), kIsn, 9, 110);
  EXPECT_FALSE(spw_half_open_replace(&place, other, 0)) << "another handshake has the place by now";
  EXPECT_EQ(place, later);
}

TEST(HalfOpen, ACompletedHandshakePassesAndIsTheOnlyOneOfItsFlow) {
  spw_half_open bucket{};
  const auto word = [](uint64_t hash, uint32_t isn) { return spw_half_open_word(hash, isn, 9, 100); };
  for (uint32_t i = 0; i < 3; i++) bucket.word[i] = word(kHash, kIsn + (i << 20));
  bucket.word[3] = word(Hash(3), kIsn);
  spw_half_open_push(&bucket, word(kHash, kIsn + (7 << 20)));
  spw_half_open_complete(&bucket, bucket.word[1]);
  for (int i : {0, 1, 2}) EXPECT_EQ(bucket.word[i], 0u) << i;
  EXPECT_EQ(bucket.word[3], word(Hash(3), kIsn));
  EXPECT_EQ(spw_half_open_find(&bucket, kHash, kIsn + (1 << 20)), SPW_HALF_OPEN_KEPT_WAYS);
  EXPECT_EQ(spw_half_open_find(&bucket, kHash, kIsn + (7 << 20)), -1);
}

// Between the look for a flow's word and what is done with it, other CPUs may fill its place.
TEST(HalfOpen, AWordThatWasOverwrittenSinceItWasFoundTakesNoOther) {
  spw_half_open bucket{};
  spw_half_open_push(&bucket, spw_half_open_word(kHash, kIsn, 9, 100));
  const uint64_t found = spw_half_open_proof(&bucket, kHash, kIsn + 1);
  ASSERT_NE(found, 0u);
  for (uint64_t i = 0; i < SPW_HALF_OPEN_WAYS; i++)
    bucket.word[i] = spw_half_open_word(Hash(i), kIsn, static_cast<uint16_t>(i), 100);
  const spw_half_open others = bucket;
  spw_half_open_forget(&bucket, found);
  EXPECT_EQ(std::memcmp(&bucket, &others, sizeof(bucket)), 0);

  // Another handshake of the same flow, or a later SYN of the same one, is not the one that was given up.
  bucket.word[3] = spw_half_open_word(kHash, kIsn, 9, 101);
  spw_half_open_forget(&bucket, found);
  EXPECT_NE(bucket.word[3], 0u);
  bucket.word[3] = found;
  spw_half_open_forget(&bucket, found);
  EXPECT_EQ(bucket.word[3], 0u);

  bucket = others;
  spw_half_open_complete(&bucket, found);
  for (int i = 0; i < SPW_HALF_OPEN_KEPT_WAYS; i++) EXPECT_EQ(bucket.word[i], others.word[i]) << i;
  EXPECT_EQ(bucket.word[SPW_HALF_OPEN_KEPT_WAYS], found) << "it is the one that was proven";
}

// The SYN that comes again after a second, the first time-out of every TCP, must find its word.
TEST(HalfOpen, KeepsAWordBeyondTheFirstRetry) {
  EXPECT_GE((uint64_t{SPW_HALF_OPEN_KEPT - 1} << SPW_HALF_OPEN_STAMP_SHIFT), 1'800'000'000ULL);
}

TEST(HalfOpen, TheIndexCoversTheTable) {
  EXPECT_EQ(spw_half_open_index(0), 0u);
  EXPECT_EQ(spw_half_open_index(~0ULL), static_cast<uint32_t>(SPW_HALF_OPEN_BUCKETS - 1));
}

}  // namespace
}  // namespace spillway

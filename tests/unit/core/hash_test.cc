// SPDX-License-Identifier: Apache-2.0
// The flow hash by counting: every input bit stirs every output bit, and the parts that tables use
// (ring slot, bucket, tag) are uniform over traffic that is anything but.
#include "core/hash.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <random>
#include <vector>

#include "core/flow_table.h"
#include "core/half_open.h"
#include "core/ring.h"

namespace spillway {
namespace {

spw_seed Seed(uint64_t n) {
  std::mt19937_64 random(n);
  spw_seed seed;
  for (auto& k : seed.key) k = static_cast<uint32_t>(random());
  seed.mix = random();
  return seed;
}

struct Tuple {
  uint32_t src[4], dst[4], ports;
  uint8_t proto;
};

Tuple RandomTuple(std::mt19937_64& random) {
  Tuple t;
  for (auto& w : t.src) w = static_cast<uint32_t>(random());
  for (auto& w : t.dst) w = static_cast<uint32_t>(random());
  t.ports = static_cast<uint32_t>(random());
  t.proto = static_cast<uint8_t>(random());
  return t;
}

uint64_t V4(const spw_seed& seed, const Tuple& t) {
  return spw_hash_v4(&seed, t.src[0], t.dst[0], t.ports, t.proto);
}
uint64_t V6(const spw_seed& seed, const Tuple& t) {
  return spw_hash_v6(&seed, t.src, t.dst, t.ports, t.proto);
}

// Flips `input_bits` bits one at a time. Each (input bit, output bit) cell counts kRounds coin flips:
// mean n/2, sigma sqrt(n)/2 = 32. With at most 296 * 64 cells, 6 sigma fails a good hash once in
// 3e4 seeds, and the seed is fixed.
void CheckAvalanche(int input_bits, const std::function<void(Tuple&, int)>& flip,
                    uint64_t (*hash)(const spw_seed&, const Tuple&)) {
  constexpr int kRounds = 4096;
  std::mt19937_64 random(3);
  spw_seed seed = Seed(4);
  for (int bit = 0; bit < input_bits; bit++) {
    std::vector<int> flips(64);
    for (int round = 0; round < kRounds; round++) {
      Tuple t = RandomTuple(random), other = t;
      flip(other, bit);
      uint64_t difference = hash(seed, t) ^ hash(seed, other);
      for (int out = 0; out < 64; out++) flips[static_cast<size_t>(out)] += difference >> out & 1;
    }
    for (int out = 0; out < 64; out++) {
      ASSERT_NEAR(flips[static_cast<size_t>(out)], kRounds / 2, 6 * std::sqrt(kRounds) / 2)
          << "input bit " << bit << ", output bit " << out;
    }
  }
}

TEST(Hash, EveryV4InputBitStirsEveryOutputBit) {
  CheckAvalanche(
      32 * 3 + 8,
      [](Tuple& t, int bit) {
        if (bit < 32)
          t.src[0] ^= 1u << bit;
        else if (bit < 64)
          t.dst[0] ^= 1u << (bit - 32);
        else if (bit < 96)
          t.ports ^= 1u << (bit - 64);
        else
          t.proto ^= static_cast<uint8_t>(1u << (bit - 96));
      },
      V4);
}

TEST(Hash, EveryV6InputBitStirsEveryOutputBit) {
  CheckAvalanche(
      128 * 2 + 32 + 8,
      [](Tuple& t, int bit) {
        if (bit < 128)
          t.src[bit / 32] ^= 1u << bit % 32;
        else if (bit < 256)
          t.dst[bit / 32 - 4] ^= 1u << bit % 32;
        else if (bit < 288)
          t.ports ^= 1u << (bit - 256);
        else
          t.proto ^= static_cast<uint8_t>(1u << (bit - 288));
      },
      V6);
}

// Pearson's statistic over k cells has mean k - 1 and variance 2 (k - 1); 6 sigma on either side (too
// even is as wrong as too uneven).
void CheckUniform(const std::vector<uint32_t>& cells, const char* what) {
  double total = 0, statistic = 0;
  for (uint32_t c : cells) total += c;
  double expected = total / static_cast<double>(cells.size());
  for (uint32_t c : cells) statistic += (c - expected) * (c - expected) / expected;
  double freedom = static_cast<double>(cells.size() - 1);
  EXPECT_NEAR(statistic, freedom, 6 * std::sqrt(2 * freedom)) << what;
}

// One client network, counting ports: the kind of regularity a weak hash lets through.
TEST(Hash, RegularTrafficFallsUniformlyOnEveryTable) {
  spw_seed seed = Seed(5);
  constexpr uint32_t kRing = 4099, kBuckets = 4096;
  for (int family : {4, 6}) {
    std::vector<uint32_t> ring(kRing), second(kRing), bucket(kBuckets), tag(kBuckets),
        half(SPW_HALF_OPEN_BUCKETS);
    for (uint32_t i = 0; i < 400'000; i++) {
      Tuple t{};
      uint32_t host = i / 4000;
      t.src[family == 4 ? 0 : 3] = __builtin_bswap32(0x0a000000u + host);
      t.dst[0] = __builtin_bswap32(0xcb007135u);
      t.ports = __builtin_bswap16(static_cast<uint16_t>(32768 + i % 4000)) | __builtin_bswap16(443) << 16;
      t.proto = 6;
      uint64_t h = family == 4 ? V4(seed, t) : V6(seed, t);
      ring[spw_ring_index(h, kRing)]++;
      second[spw_ring_second_index(h, kRing)]++;
      bucket[spw_flow_primary(h, kBuckets - 1)]++;
      tag[spw_flow_tag(h) % kBuckets]++;
      half[spw_half_open_index(h)]++;
    }
    CheckUniform(ring, "ring slot");
    CheckUniform(second, "second ring slot");
    CheckUniform(bucket, "bucket");
    CheckUniform(tag, "tag");
    CheckUniform(half, "half-open entry");
  }
}

// p2c's second candidate must not follow from the first: joint counts over a coarse grid.
TEST(Hash, TheTwoRingSlotsOfAFlowAreIndependent) {
  spw_seed seed = Seed(6);
  constexpr uint32_t kGrid = 64;
  std::vector<uint32_t> joint(kGrid * kGrid);
  for (uint32_t i = 0; i < 400'000; i++) {
    uint64_t h = spw_hash_v4(&seed, i, 7, 8, 17);
    joint[spw_ring_index(h, kGrid) * kGrid + spw_ring_second_index(h, kGrid)]++;
  }
  CheckUniform(joint, "slot pair");
}

TEST(Hash, AnotherSeedIsAnotherPlacement) {
  spw_seed a = Seed(7), b = Seed(8);
  int same = 0;
  for (uint32_t i = 0; i < 10'000; i++) {
    same +=
        spw_ring_index(spw_hash_v4(&a, i, 1, 2, 6), 100) == spw_ring_index(spw_hash_v4(&b, i, 1, 2, 6), 100);
  }
  EXPECT_NEAR(same, 100, 60);  // chance: 1 in 100, sigma 10
}

TEST(Hash, ScaleStaysInRangeAndKeepsOrder) {
  EXPECT_EQ(spw_scale(0, 7), 0u);
  EXPECT_EQ(spw_scale(0xffffffffu, 7), 6u);
  EXPECT_EQ(spw_scale(0xffffffffu, 0xffffffffu), 0xfffffffeu);
  uint32_t last = 0;
  for (uint64_t u = 0; u < 1ULL << 32; u += 99991) {
    uint32_t at = spw_scale(static_cast<uint32_t>(u), 4099);
    ASSERT_GE(at, last);
    last = at;
  }
}

}  // namespace
}  // namespace spillway

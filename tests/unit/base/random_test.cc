// SPDX-License-Identifier: Apache-2.0
#include "base/random.h"

#include <gtest/gtest.h>

namespace spillway::base {
namespace {

// The first outputs of the published generator for seed 1234567.
TEST(SplitMix64, IsThePublishedOne) {
  SplitMix64 random(1234567);
  for (uint64_t index = 0;
       const uint64_t expected : {6457827717110365317u, 3203168211198807973u, 9817491932198370423u}) {
    EXPECT_EQ(random.Bits(), expected);
    EXPECT_EQ(SplitMix64::At(1234567, index++), expected);
  }
}

TEST(SplitMix64, BelowABoundAllNumbersCome) {
  SplitMix64 random(1);
  int seen[10] = {};
  for (int i = 0; i < 100'000; i++) seen[random.Below(10)]++;
  // Standard deviation 95; five of them.
  for (const int count : seen) EXPECT_NEAR(count, 10'000, 475);
}

}  // namespace
}  // namespace spillway::base

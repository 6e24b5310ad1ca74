// SPDX-License-Identifier: Apache-2.0
#include "lab/compute/computation.h"

#include <gtest/gtest.h>

#include <vector>

namespace spillway::compute {
namespace {

TEST(Noise, IsSplitMix64) {
  // The first outputs of the published generator for seed 1234567.
  EXPECT_EQ(Noise(1234567, 0), 6457827717110365317u);
  EXPECT_EQ(Noise(1234567, 1), 3203168211198807973u);
  EXPECT_EQ(Noise(1234567, 2), 9817491932198370423u);
}

TEST(Noise, IsUniformBetweenMinusOneAndOne) {
  std::vector<float> values(100'000);
  FillWithNoise(values, 5, 1);
  double sum = 0, squares = 0;
  for (float value : values) {
    ASSERT_GE(value, -1);
    ASSERT_LT(value, 1);
    sum += value;
    squares += value * value;
  }
  // Standard errors of 100,000: 0.0018 and, of a variance of 1/3, 0.00094; five of each.
  EXPECT_NEAR(sum / 100'000, 0, 0.0091);
  EXPECT_NEAR(squares / 100'000, 1.0 / 3, 0.0047);
}

TEST(Checksum, IsFnv1aOfTheBytes) { EXPECT_EQ(Checksum(std::span<const char>("foobar", 6)), 0xbf9cf968u); }

}  // namespace
}  // namespace spillway::compute

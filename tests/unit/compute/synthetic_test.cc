// SPDX-License-Identifier: Apache-2.0
#include "lab/compute/synthetic.h"

#include <gtest/gtest.h>

#include "lab/compute/computation.h"

namespace spillway::compute {
namespace {

TEST(Synthetic, DoesAsMuchWorkAsAsked) {
  Synthetic one({1.0}, 1);
  EXPECT_NEAR(static_cast<double>(one.Steps(1000)) * Synthetic::kFlopPerStep, 1e9, Synthetic::kFlopPerStep);
  EXPECT_NEAR(static_cast<double>(one.Steps(250)) * Synthetic::kFlopPerStep, 0.25e9, Synthetic::kFlopPerStep);
  EXPECT_EQ(one.Steps(0), 0u);
  EXPECT_EQ(Synthetic({1e-6}, 1).Steps(1000), 1u);
}

TEST(Synthetic, TheSameSeedAndQuestionGiveTheSameResult) {
  Synthetic a({0.001}, 1), b({0.001}, 1), other({0.001}, 2);
  EXPECT_EQ(a.Answer(0, 5, 1000, {}), b.Answer(3, 5, 1000, {}));
  EXPECT_NE(a.Answer(0, 5, 1000, {}), a.Answer(0, 6, 1000, {}));
  EXPECT_NE(a.Answer(0, 5, 1000, {}), other.Answer(0, 5, 1000, {}));
}

TEST(Synthetic, EachStepCounts) {
  // One step more, another result: none is left out.
  Synthetic a({3 * Synthetic::kFlopPerStep / 1e9}, 1), b({4 * Synthetic::kFlopPerStep / 1e9}, 1);
  EXPECT_NE(a.Answer(0, 5, 1000, {}), b.Answer(0, 5, 1000, {}));
}

TEST(Synthetic, MultipliesAsAThreeLineLoopDoes) {
  constexpr std::size_t kSide = Synthetic::kSide;
  Synthetic::Matrix a, b, product;
  FillWithNoise(a.at, 1, 1);
  FillWithNoise(b.at, 2, 1);
  Synthetic::WidestMultiply()(a, b, product);
  for (std::size_t i = 0; i < kSide; ++i)
    for (std::size_t j = 0; j < kSide; ++j) {
      double sum = 0;
      for (std::size_t k = 0; k < kSide; ++k) sum += double{a.at[i * kSide + k]} * b.at[k * kSide + j];
      ASSERT_NEAR(product.at[i * kSide + j], sum, 1e-5) << i << ", " << j;
    }
}

TEST(Synthetic, EndsEarlyWhenToldTo) {
  std::stop_source stop;
  stop.request_stop();
  Synthetic endless({1e6}, 1);
  (void)endless.Answer(0, 1, 1000, stop.get_token());
}

}  // namespace
}  // namespace spillway::compute

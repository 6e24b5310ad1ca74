// SPDX-License-Identifier: Apache-2.0
#include "lab/experiment/capacity_search.h"

#include <gtest/gtest.h>

#include <vector>

namespace spillway::lab {
namespace {

TEST(CapacitySearch, FindsTheCapacityFromBelowAndFromAbove) {
  for (double capacity : {7.0, 63.0, 1503.0, 98'000.0}) {
    int slices = 0;
    const auto found = HighestSustained(64, {}, [&](double rate, int count) -> Result<bool> {
      slices += count;
      return rate <= capacity;
    });
    ASSERT_TRUE(found);
    EXPECT_LE(*found, capacity);
    EXPECT_GT(*found * SearchCare().accuracy, capacity);
    EXPECT_LE(slices, 24) << "each is a second or so";
  }
}

TEST(CapacitySearch, ARoughAnswerTakesFewerSlices) {
  for (double capacity : {63.0, 1503.0, 98'000.0}) {
    int slices = 0;
    const auto found =
        HighestSustained(64, SearchCare::Within(20), [&](double rate, int count) -> Result<bool> {
          slices += count;
          return rate <= capacity;
        });
    ASSERT_TRUE(found);
    EXPECT_LE(*found, capacity);
    EXPECT_GT(*found * 1.2, capacity);
    EXPECT_LE(slices, 14);
  }
}

TEST(CapacitySearch, OneUnluckySliceDoesNotEndTheAscent) {
  bool unlucky = true;
  const auto found = HighestSustained(64, {}, [&](double rate, int) -> Result<bool> {
    if (rate == 64 * kSearchStep && unlucky) {
      unlucky = false;
      return false;
    }
    return rate <= 1000;
  });
  ASSERT_TRUE(found);
  EXPECT_GT(*found, 900);
}

TEST(CapacitySearch, ABadMomentOfTheMachineDoesNotLowerTheAnswer) {
  int slices = 0;
  const auto found = HighestSustained(64, {}, [&](double rate, int count) -> Result<bool> {
    slices += count;
    const bool bad_moment = slices > 3 && slices < 8;  // a second or so each
    return rate <= (bad_moment ? 500 : 1000);
  });
  ASSERT_TRUE(found);
  EXPECT_LE(*found, 1000);
  EXPECT_GT(*found, 900);
}

TEST(CapacitySearch, WhatWasConfirmedIsNotAskedAgain) {
  std::vector<double> confirmed;
  int slices = 0;
  const auto found =
      HighestSustained(64, SearchCare::Within(20), [&](double rate, int count) -> Result<bool> {
        slices += count;
        const bool bad_moment = slices > 3 && slices < 8;
        const bool good = rate <= (bad_moment ? 1050 : 1300);
        if (count > 1 && good) confirmed.push_back(rate);
        return good;
      });
  ASSERT_TRUE(found);
  EXPECT_GT(*found, 1300 / 1.2);
  ASSERT_EQ(confirmed.size(), 2u) << "what was found at first, and a little above";
  EXPECT_LT(confirmed[0], confirmed[1]);
  EXPECT_EQ(*found, confirmed[1]);
}

TEST(CapacitySearch, ALuckySliceDoesNotDecide) {
  const auto found = HighestSustained(
      64, {}, [](double rate, int slices) -> Result<bool> { return rate <= (slices == 1 ? 1200 : 1000); });
  ASSERT_TRUE(found);
  EXPECT_LE(*found, 1000);
  EXPECT_GT(*found, 950);
}

TEST(CapacitySearch, ABedThatAnswersNothingOrEverythingIsAnError) {
  EXPECT_FALSE(HighestSustained(64, {}, [](double, int) -> Result<bool> { return false; }));
  EXPECT_FALSE(HighestSustained(64, {}, [](double, int) -> Result<bool> { return true; }));
}

// A machine so busy that every longer look is disturbed.
TEST(CapacitySearch, WhatCannotBeConfirmedIsAnErrorSoon) {
  int looks = 0;
  const auto found = HighestSustained(64, {}, [&](double rate, int slices) -> Result<bool> {
    looks++;
    return slices == 1 && rate <= 1000;
  });
  ASSERT_FALSE(found);
  EXPECT_NE(found.error().message.find("varies too much"), std::string::npos);
  EXPECT_LT(looks, 25) << "each takes ten seconds";
}

TEST(CapacitySearch, AFailedSliceEndsIt) {
  const auto found = HighestSustained(
      64, {}, [](double, int) -> Result<bool> { return Fail(ErrorCode::kSystem, "interrupted"); });
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().message, "interrupted");
}

}  // namespace
}  // namespace spillway::lab

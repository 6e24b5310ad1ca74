// SPDX-License-Identifier: Apache-2.0
#include "report/drawing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace spillway::report {
namespace {

using testing::ElementsAre;

std::vector<std::string> Labels(const Scale& scale) {
  std::vector<std::string> labels;
  for (double tick : scale.ticks()) labels.push_back(scale.Label(tick));
  return labels;
}

TEST(Scale, PlacesLinearTicksOnRoundNumbers) {
  EXPECT_THAT(Labels(Scale({}, 0, 97)), ElementsAre("0", "20", "40", "60", "80", "100"));
  EXPECT_THAT(Labels(Scale({}, 0, 1)), ElementsAre("0", "0.2", "0.4", "0.6", "0.8", "1.0"));
  EXPECT_THAT(Labels(Scale({}, 0, 25000)), ElementsAre("0", "5k", "10k", "15k", "20k", "25k"));
}

TEST(Scale, PlacesLogTicksOnDecadesOr125) {
  Axis axis;
  axis.log = true;
  EXPECT_THAT(Labels(Scale(axis, 1, 1e7)), ElementsAre("1", "10", "100", "1k", "10k", "100k", "1M", "10M"));
  EXPECT_THAT(Labels(Scale(axis, 0.3, 4)), ElementsAre("0.2", "0.5", "1", "2", "5"));
}

TEST(Scale, MapsEndsToZeroAndOneAndKeepsOrder) {
  for (bool log : {false, true}) {
    Axis axis;
    axis.log = log;
    const Scale scale(axis, 3, 4711);
    EXPECT_NEAR(scale.Position(scale.min()), 0, 1e-12);
    EXPECT_NEAR(scale.Position(scale.max()), 1, 1e-12);
    EXPECT_LT(scale.Position(5), scale.Position(6));
    EXPECT_LE(scale.min(), 3);
    EXPECT_GE(scale.max(), 4711);
  }
}

TEST(Scale, StaysDefinedForASingleValue) {
  for (bool log : {false, true}) {
    for (double value : {0.0, 1e-9, 5.0, 1e12}) {
      Axis axis;
      axis.log = log;
      const Scale scale(axis, value, value);
      EXPECT_LT(scale.min(), scale.max());
      EXPECT_FALSE(scale.ticks().empty());
      EXPECT_LT(scale.ticks().size(), 20u);
    }
  }
}

TEST(Scale, KeepsAFixedRange) {
  Axis axis;
  axis.min = 0;
  axis.max = 7.5;
  const Scale scale(axis, 1, 100);
  EXPECT_EQ(scale.max(), 7.5);
  EXPECT_LE(scale.ticks().back(), 7.5);
}

TEST(Scale, CannotShowNonPositiveValuesOnALogAxis) {
  Axis axis;
  axis.log = true;
  const Scale scale(axis, 1, 10);
  EXPECT_FALSE(scale.Defined(0));
  EXPECT_FALSE(scale.Defined(NAN));
  EXPECT_TRUE(scale.Defined(0.1));
}

}  // namespace
}  // namespace spillway::report

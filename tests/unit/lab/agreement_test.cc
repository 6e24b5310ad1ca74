// SPDX-License-Identifier: Apache-2.0
#include "lab/experiment/prediction.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace spillway::lab {
namespace {

using testing::HasSubstr;
using testing::Not;

Row Point(const char* policy, double load_pct, double measured_ms, double predicted_ms) {
  Row row;
  row.policy = policy;
  row.load_pct = load_pct;
  row.p99_ms = measured_ms;
  row.predicted = Forecast{1, predicted_ms, 0};
  return row;
}

TEST(Agreement, CountsPointsWithinAFactorEitherWay) {
  const auto agreement = AgreementOf(
      {Point("a", 40, 15, 10), Point("b", 60, 10, 15), Point("c", 80, 16, 10), Point("d", 90, 10, 16)});
  ASSERT_TRUE(agreement);
  EXPECT_EQ(agreement->points, 4u);
  EXPECT_EQ(agreement->within(), 2u);
  ASSERT_EQ(agreement->deviations.size(), 2u);
  EXPECT_EQ(agreement->deviations[0].policy, "c");
  EXPECT_DOUBLE_EQ(agreement->deviations[1].ratio, 10.0 / 16);
}

TEST(Agreement, TheOrderCountsOnlyWhereMeasurementsDifferByMoreThanTheFactor) {
  const auto agreement = AgreementOf({Point("a", 40, 10, 12), Point("b", 40, 20, 11), Point("c", 40, 14, 40),
                                      Point("a", 60, 10, 30), Point("b", 60, 90, 31)});
  ASSERT_TRUE(agreement);
  EXPECT_EQ(agreement->pairs, 2u) << "a and b, at both loads; of the rest none differ by more than 1.5";
  ASSERT_EQ(agreement->reversals.size(), 1u);
  EXPECT_EQ(agreement->reversals[0].lower, "a");
  EXPECT_EQ(agreement->reversals[0].higher, "b");
  EXPECT_EQ(agreement->reversals[0].load_pct, 40);
  EXPECT_EQ(agreement->in_order(), 1u);
}

TEST(Agreement, WithoutPredictionsThereIsNone) {
  Row row = Point("a", 40, 10, 10);
  row.predicted.reset();
  EXPECT_FALSE(AgreementOf({row}));
  EXPECT_FALSE(P99OverPredicted(row));
}

TEST(Agreement, TheTextNamesWhereTheyDiffer) {
  const std::string text =
      AgreementText(*AgreementOf({Point("wrr", 40, 10, 12), Point("p4mite", 40, 20, 11)}));
  EXPECT_THAT(text,
              HasSubstr("within a factor of 1.5 at 1 of 2 points; not, measured over simulated: p4mite at "
                        "40 % (1.82)."));
  EXPECT_THAT(
      text,
      HasSubstr("the same for 0 of 1 pairs; as measured, but not as simulated: wrr below p4mite at 40 %."));
  EXPECT_THAT(AgreementText(*AgreementOf({Point("wrr", 40, 10, 12)})), Not(HasSubstr("not, measured")));
}

}  // namespace
}  // namespace spillway::lab

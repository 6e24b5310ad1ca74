// SPDX-License-Identifier: Apache-2.0
#include "planner/sensitivity.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "text.h"

namespace spillway::planner {
namespace {

const Influence& Of(const std::vector<Influence>& influences, const std::string& input) {
  const auto found = std::find_if(influences.begin(), influences.end(),
                                  [&](const Influence& one) { return one.input == input; });
  if (found == influences.end()) throw std::logic_error("no influence of " + input);
  return *found;
}

class SensitivityTest : public testing::Test {
 protected:
  SensitivityTest() : input_(Parse(kWorkload)), model_(input_), best_(*Search(model_, {}).best) {}
  PlanInput input_;
  ClusterModel model_;
  FrontPoint best_;
};

TEST_F(SensitivityTest, ThePriceOfWhatIsBoughtMovesTheCostByItsShare) {
  const auto influences = FindInfluences(input_, Objective::kCost, best_);
  const Evaluation e = model_.Evaluate(best_.mix);
  const Influence& price = Of(influences, "price of ipu-e2000");
  ASSERT_TRUE(price.more);
  EXPECT_GT(*price.more, 0);
  EXPECT_LE(*price.more, 0.1 * e.nodes_usd / e.CostUsd() + 1e-9)
      << "at most its share: another mix may be better";
  EXPECT_LT(*price.less, 0);
}

TEST_F(SensitivityTest, TheGreatestIsFirst) {
  const auto influences = FindInfluences(input_, Objective::kCost, best_);
  ASSERT_GT(influences.size(), 5u);
  for (size_t i = 1; i < influences.size(); i++)
    EXPECT_GE(influences[i - 1].Greatest(), influences[i].Greatest());
}

TEST_F(SensitivityTest, WhatCostsNothingMovesNothing) {
  const auto influences = FindInfluences(input_, Objective::kCost, best_);
  EXPECT_EQ(*Of(influences, "power of ipu-e2000").more, 0);
  EXPECT_FALSE(Of(influences, "power of ipu-e2000").other_mix);
}

TEST_F(SensitivityTest, AnAnswerIsWhatASearchOfTheChangedInputGives) {
  const auto influences = FindInfluences(input_, Objective::kCost, best_);
  PlanInput changed = input_;
  changed.workload.limits.slowdown *= 0.9;
  const Answer answer = Search(ClusterModel(changed), {});
  ASSERT_TRUE(answer.best);
  EXPECT_NEAR(*Of(influences, "limit of slowdown").less, answer.best->objective / best_.objective - 1, 1e-12);
}

}  // namespace
}  // namespace spillway::planner

// SPDX-License-Identifier: Apache-2.0
#include "planner/inquiry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "planner/search_report.h"
#include "text.h"

namespace spillway::planner {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class InquiryTest : public testing::Test {
 protected:
  // Interrupted when it was asked for the so-manieth time.
  Found Interrupted(int at) {
    int asked = 0;
    return Ask([&asked, at] { return ++asked >= at; });
  }
  Found Ask(const std::function<bool()>& stop) {
    return Inquire(model_, Objective::kCost, true, {{}, stop}, [] { return 0.0; });
  }
  // How often it is asked by the search, and in all.
  int Count(bool with_explanations) {
    int asked = 0;
    const auto stop = [&] {
      asked++;
      return false;
    };
    if (with_explanations) {
      (void)Ask(stop);
      return asked;
    }
    for (const bool front : {true, false}) {
      Question question;
      question.front = front;
      (void)Search(model_, question, {{}, stop});
    }
    return asked;
  }
  const PlanInput input_ = Parse(With(kWorkload, "slowdown: 1.5", "slowdown: 1.6"));
  const ClusterModel model_{input_};
};

TEST_F(InquiryTest, InterruptedItKeepsTheBestFoundUntilThen) {
  const Found whole = Ask({});
  ASSERT_TRUE(whole.answer.best);
  EXPECT_FALSE(whole.is_interrupted);
  const int calls = Count(false);
  int with_best = 0;
  for (int at = 1; at <= calls; at++) {
    const Found found = Interrupted(at);
    ASSERT_TRUE(found.is_interrupted) << at;
    EXPECT_TRUE(found.binding.empty());
    if (!found.answer.best) continue;
    with_best++;
    EXPECT_GE(found.answer.best->objective, whole.answer.best->objective) << at;
  }
  EXPECT_GT(with_best, 1) << "only once all was looked at";
  const Found last = Interrupted(calls);
  ASSERT_TRUE(last.answer.best);
  EXPECT_EQ(last.answer.best->objective, whole.answer.best->objective)
      << "the search of the front, which was done, has it";
  EXPECT_THAT(SearchText(last),
              AllOf(HasSubstr("before all of"), HasSubstr("x ipu-e2000"), Not(HasSubstr("binding"))));
  EXPECT_EQ(SearchDocument(last).Json()["ratios"]["interrupted"], 1);
  EXPECT_FALSE(SearchDocument(whole).Json()["ratios"].contains("interrupted"));
}

TEST_F(InquiryTest, InterruptedWhileItExplainsTheAnswerStands) {
  const int search = Count(false), all = Count(true);
  ASSERT_GT(all, search + 2);
  const Found found = Interrupted(search + 2);
  EXPECT_TRUE(found.is_interrupted);
  EXPECT_FALSE(found.answer.stopped);
  EXPECT_THAT(SearchText(found), AllOf(HasSubstr(" mixes in 0.00 s"), Not(HasSubstr("before all of"))));
}

}  // namespace
}  // namespace spillway::planner

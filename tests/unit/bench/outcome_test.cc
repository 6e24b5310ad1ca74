// SPDX-License-Identifier: Apache-2.0
// What the benchmark of reactions makes of a stream of questions.
#include "bench/reaction/outcome.h"

#include <gtest/gtest.h>

namespace spillway::bench {
namespace {

using namespace std::chrono_literals;

// A question each millisecond, each answered in one but those that `lost` names.
template <class Lost>
std::vector<Question> Stream(int count, Lost lost) {
  std::vector<Question> questions;
  for (int ms = 0; ms < count; ms++) {
    const Moment sent = ms * 1ms;
    questions.push_back({sent, lost(ms) ? Moment{0} : sent + 1ms, false});
  }
  return questions;
}

TEST(Outcome, NothingLostIsDetectedAtOnce) {
  const Outcome outcome = Judge(Stream(1000, [](int) { return false; }), 300ms, 800ms);
  EXPECT_EQ(outcome.detect_ms, 0);
  EXPECT_EQ(outcome.lost + outcome.lost_before + outcome.lost_after_detect, 0u);
}

TEST(Outcome, FromTheFaultToTheFirstQuestionAfterWhichOnlyProbesAreLost) {
  // Every second question for 40 ms, then a probe each 20 ms.
  const auto questions =
      Stream(1000, [](int ms) { return ms >= 300 && ms < 800 && (ms < 340 ? ms % 2 == 0 : ms % 20 == 0); });
  const Outcome outcome = Judge(questions, 300ms, 800ms);
  ASSERT_TRUE(outcome.detect_ms);
  EXPECT_NEAR(*outcome.detect_ms, 40, 4);
  EXPECT_NEAR(static_cast<double>(outcome.lost), 20, 2);
  EXPECT_EQ(outcome.lost + outcome.lost_after_detect, 20u + 23u);
  EXPECT_EQ(outcome.lost_before, 0u);
}

TEST(Outcome, NeverDetectedWhenItGoesOn) {
  const Outcome outcome = Judge(Stream(1000, [](int ms) { return ms >= 300 && ms % 2; }), 300ms, 800ms);
  EXPECT_FALSE(outcome.detect_ms);
  EXPECT_EQ(outcome.lost, 250u);
  EXPECT_EQ(outcome.lost_after_detect, 0u);
}

TEST(Outcome, AnswersThatComeTooLateAreLost) {
  std::vector<Question> questions = Stream(1000, [](int) { return false; });
  questions[100].answered = questions[100].sent + kPatience + 1ms;
  questions[200].answered = questions[200].sent + kPatience;
  EXPECT_EQ(Judge(questions, 300ms, 800ms).lost_before, 1u);
}

TEST(Outcome, AnErrorForAnAnswerIsLost) {
  std::vector<Question> questions = Stream(1000, [](int) { return false; });
  for (size_t ms = 300; ms < 800; ms += 2) questions[ms].error = true;
  const Outcome outcome = Judge(questions, 300ms, 800ms);
  EXPECT_FALSE(outcome.detect_ms);
  EXPECT_EQ(outcome.lost, 250u);
  EXPECT_EQ(outcome.asked, 500u);
}

// Each second question from 300 ms to 400 ms takes 11 ms, the others 1 ms.
std::vector<Question> SlowStream() {
  std::vector<Question> questions = Stream(1000, [](int) { return false; });
  for (size_t ms = 300; ms < 400; ms += 2) questions[ms].answered = questions[ms].sent + 11ms;
  return questions;
}

TEST(Outcome, LateAnswersCountAgainstDetectionAndAreNotLost) {
  const Outcome outcome = Judge(SlowStream(), 300ms, 800ms, 10ms);
  ASSERT_TRUE(outcome.detect_ms);
  EXPECT_NEAR(*outcome.detect_ms, 100, 8);
  EXPECT_NEAR(static_cast<double>(outcome.late), 50, 4);
  EXPECT_EQ(outcome.late + outcome.late_after_detect, 50u);
  EXPECT_EQ(outcome.lost + outcome.lost_after_detect, 0u);
}

TEST(Outcome, NoAnswerIsLateUnlessALimitIsGiven) {
  const Outcome outcome = Judge(SlowStream(), 300ms, 800ms);
  EXPECT_EQ(outcome.detect_ms, 0);
  EXPECT_EQ(outcome.late + outcome.late_after_detect, 0u);
}

TEST(Outcome, LateAnswersBeforeTheFaultAreCounted) {
  const Outcome outcome = Judge(SlowStream(), 500ms, 800ms, 10ms);
  EXPECT_EQ(outcome.late_before, 50u);
  EXPECT_EQ(outcome.asked_before, 500u);
}

TEST(FirstLost, IsThatOfTheQuestionsFromThenOn) {
  const auto questions = Stream(1000, [](int ms) { return ms == 100 || ms >= 305; });
  EXPECT_EQ(FirstLost(questions, 0ms), 100ms);
  EXPECT_EQ(FirstLost(questions, 300ms), 305ms);
  EXPECT_FALSE(FirstLost(Stream(10, [](int) { return false; }), 0ms));
}

TEST(MedianLatency, IsOfTheAnsweredOnesBeforeThen) {
  std::vector<Question> questions = Stream(100, [](int ms) { return ms % 3 == 0; });
  for (size_t ms = 50; ms < 100; ms++) questions[ms].answered = questions[ms].sent + 40ms;
  EXPECT_EQ(MedianLatency(questions, 50ms), 1ms);
  EXPECT_EQ(MedianLatency(questions, 100ms), 40ms);
  EXPECT_EQ(MedianLatency(questions, 0ms), 0ms);
}

}  // namespace
}  // namespace spillway::bench

// SPDX-License-Identifier: Apache-2.0
#include "bench/reaction/outcome.h"

#include <algorithm>

namespace spillway::bench {
namespace {

// Detected: of the questions of so long at most so many are lost or late. A unit that is out is probed once
// in 17 ms.
constexpr std::chrono::milliseconds kWindow{50};
constexpr size_t kProbesInWindow = 3;

size_t At(const std::vector<Question>& questions, Moment when) {
  return static_cast<size_t>(
      std::lower_bound(questions.begin(), questions.end(), when,
                       [](const Question& question, Moment moment) { return question.sent < moment; }) -
      questions.begin());
}

}  // namespace

bool IsLost(const Question& question) {
  return question.answered.count() == 0 || question.error || question.answered - question.sent > kPatience;
}

Outcome Judge(const std::vector<Question>& questions, Moment fault, Moment mended, Moment too_late) {
  Outcome outcome;
  const auto is_late = [&](const Question& question) {
    return !IsLost(question) && question.answered - question.sent > too_late;
  };
  const auto count = [&](size_t from, size_t to, const auto& is) {
    return static_cast<size_t>(std::count_if(questions.begin() + static_cast<long>(from),
                                             questions.begin() + static_cast<long>(to), is));
  };
  const auto is_bad = [&](const Question& question) { return IsLost(question) || is_late(question); };
  const size_t begin = At(questions, fault), end = At(questions, mended);
  outcome.asked_before = begin;
  outcome.asked = end - begin;
  outcome.lost_before = count(0, begin, IsLost);
  outcome.late_before = count(0, begin, is_late);
  size_t detected = begin;
  for (; detected < end; detected++) {
    if (questions[detected].sent + kWindow > mended) break;  // too late to judge
    if (is_bad(questions[detected])) continue;
    if (count(detected, At(questions, questions[detected].sent + kWindow), is_bad) <= kProbesInWindow) {
      outcome.detect_ms = std::chrono::duration<double, std::milli>(questions[detected].sent - fault).count();
      break;
    }
  }
  if (!outcome.detect_ms) detected = end;
  outcome.lost = count(begin, detected, IsLost);
  outcome.late = count(begin, detected, is_late);
  outcome.lost_after_detect = count(detected, end, IsLost);
  outcome.late_after_detect = count(detected, end, is_late);
  return outcome;
}

std::optional<Moment> FirstLost(const std::vector<Question>& questions, Moment from) {
  const auto begin = questions.begin() + static_cast<long>(At(questions, from));
  const auto lost = std::find_if(begin, questions.end(), IsLost);
  return lost == questions.end() ? std::nullopt : std::optional(lost->sent);
}

Moment MedianLatency(const std::vector<Question>& questions, Moment before) {
  std::vector<Moment> latencies;
  for (size_t i = 0; i < At(questions, before); i++)
    if (!IsLost(questions[i])) latencies.push_back(questions[i].answered - questions[i].sent);
  if (latencies.empty()) return Moment{0};
  const auto middle = latencies.begin() + static_cast<long>(latencies.size() / 2);
  std::nth_element(latencies.begin(), middle, latencies.end());
  return *middle;
}

}  // namespace spillway::bench

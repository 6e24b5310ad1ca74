// SPDX-License-Identifier: Apache-2.0
#include "bench/reaction/outcome.h"

#include <algorithm>

namespace spillway::bench {
namespace {

// Detected: of the questions of so long at most so many are lost. A unit that is out is probed once in 17 ms.
constexpr std::chrono::milliseconds kWindow{50};
constexpr size_t kProbesInWindow = 3;

bool Lost(const Question& question) {
  return question.answered.count() == 0 || question.answered - question.sent > kPatience;
}

}  // namespace

Outcome Judge(const std::vector<Question>& questions, Moment fault, Moment mended) {
  Outcome outcome;
  const auto at = [&](Moment when) {
    return static_cast<size_t>(
        std::lower_bound(questions.begin(), questions.end(), when,
                         [](const Question& question, Moment moment) { return question.sent < moment; }) -
        questions.begin());
  };
  const auto lost_in = [&](size_t from, size_t to) {
    return static_cast<size_t>(std::count_if(questions.begin() + static_cast<long>(from),
                                             questions.begin() + static_cast<long>(to), Lost));
  };
  const size_t begin = at(fault), end = at(mended);
  outcome.lost_before = lost_in(0, begin);
  size_t detected = begin;
  for (; detected < end; detected++) {
    if (questions[detected].sent + kWindow > mended) break;  // too late to tell
    if (Lost(questions[detected])) continue;
    if (lost_in(detected, at(questions[detected].sent + kWindow)) <= kProbesInWindow) {
      outcome.detect_ms = std::chrono::duration<double, std::milli>(questions[detected].sent - fault).count();
      break;
    }
  }
  if (!outcome.detect_ms) detected = end;
  outcome.lost = lost_in(begin, detected);
  outcome.lost_after_detect = lost_in(detected, end);
  return outcome;
}

}  // namespace spillway::bench

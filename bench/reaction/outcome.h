// SPDX-License-Identifier: Apache-2.0
// What a fault did to a stream of questions. Pure.
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <vector>

namespace spillway::bench {

using Moment = std::chrono::nanoseconds;  // of CLOCK_MONOTONIC

struct Question {
  Moment sent{0};
  Moment answered{0};  // 0: never
  bool error = false;  // the answer was one: a DNS rcode other than NOERROR, an HTTP status other than 200
};

// A question not answered within this is lost, and so is one that is answered with an error.
inline constexpr std::chrono::milliseconds kPatience{500};
bool IsLost(const Question& question);

struct Outcome {
  size_t asked_before = 0, lost_before = 0, late_before = 0;  // before the fault; should be none
  std::optional<double> detect_ms;  // from the fault until all but probes are well answered; nullopt: never
  size_t lost = 0, late = 0;        // until then
  size_t lost_after_detect = 0, late_after_detect = 0;  // from then until the fault was mended
  size_t asked = 0;                                     // from the fault until it was mended
};

// questions: by time of sending, all answered or given up. An answer that takes longer than `too_late` is
// late, and counts against detection as a lost question does. By default none is late.
Outcome Judge(const std::vector<Question>& questions, Moment fault, Moment mended,
              Moment too_late = Moment::max());

// When the first lost question of those from `from` on was sent; nullopt: none is.
std::optional<Moment> FirstLost(const std::vector<Question>& questions, Moment from);

// How long an answer took, of those sent before `before`, lost ones apart. 0: there are none.
Moment MedianLatency(const std::vector<Question>& questions, Moment before);

}  // namespace spillway::bench

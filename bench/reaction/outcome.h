// SPDX-License-Identifier: Apache-2.0
// What a fault did to a stream of questions. Pure.
#pragma once

#include <chrono>
#include <optional>
#include <vector>

namespace spillway::bench {

using Moment = std::chrono::nanoseconds;  // of CLOCK_MONOTONIC

struct Question {
  Moment sent{0};
  Moment answered{0};  // 0: never
};

// A question not answered within this is lost.
inline constexpr std::chrono::milliseconds kPatience{500};

struct Outcome {
  size_t lost_before = 0;           // before the fault: should be 0
  std::optional<double> detect_ms;  // from the fault until all but probes are answered; nullopt: never
  size_t lost = 0;                  // until then
  size_t lost_after_detect = 0;     // from then until the fault was mended
};

// questions: by time of sending, all answered or given up.
Outcome Judge(const std::vector<Question>& questions, Moment fault, Moment mended);

}  // namespace spillway::bench

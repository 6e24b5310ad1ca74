// SPDX-License-Identifier: Apache-2.0
// Of requests that have waited for so long: which part is answered in the end. A request that is in progress
// and one that no answer will come to (a scanner's, or one that the server lost) look the same at any moment,
// but of their kind it was seen what became of them: where slow requests are usual most of those that wait
// for long are answered, and beside a scanner few are. Time is an argument; a plain value.
//
// Ages are told apart by octaves. Of each: how many requests were answered at that age, and how many grew
// older without an answer; both fade. The part that is answered is, as in an actuary's life table, that
// within the octave, and of the rest that in those after it.
#pragma once

#include <array>
#include <cstddef>

#include "agent/config.h"

namespace spillway::agent {

class AnswerOdds {
 public:
  // Younger ones are all taken to be in progress. Less: more look-ups that decide nothing. More: what is
  // never answered counts for longer.
  static constexpr Duration kYoungest = std::chrono::milliseconds(50);

  // `timeout`: at that age a request is given up.
  explicit AnswerOdds(Duration timeout) : last_(OctaveOf(timeout)) {}

  void Fade(Duration elapsed);
  void Answered(Duration latency, double requests);
  // A request that is `age` old and was younger by `elapsed` when it was last looked at.
  void Waits(Duration age, Duration elapsed);
  void GivenUp(double requests) { octaves_[last_].passed += requests; }

  // Of requests of that age: 0..1.
  [[nodiscard]] double Of(Duration age) const;

 private:
  static constexpr size_t kOctaves = 16;  // 50 ms to 27 minutes
  struct Octave {
    double answered = 0, passed = 0;
  };
  static size_t OctaveOf(Duration age);

  size_t last_;
  std::array<Octave, kOctaves> octaves_{};
};

}  // namespace spillway::agent

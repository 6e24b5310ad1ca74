// SPDX-License-Identifier: Apache-2.0
#include "agent/answer_odds.h"

#include <algorithm>
#include <cmath>

namespace spillway::agent {
namespace {

// Time constant. Less: slow requests that are rare are new again when the next one comes. More: what a unit
// that begins to lose requests has lost stays in its queue for longer.
constexpr std::chrono::duration<double> kMemory = std::chrono::seconds(60);

}  // namespace

size_t AnswerOdds::OctaveOf(Duration age) {
  size_t octave = 0;
  while (octave + 1 < kOctaves && age >= kYoungest * (2LL << octave)) octave++;
  return octave;
}

void AnswerOdds::Fade(Duration elapsed) {
  const double keep = std::exp(-std::chrono::duration<double>(elapsed) / kMemory);
  for (Octave& octave : octaves_) {
    octave.answered *= keep;
    octave.passed *= keep;
  }
}

void AnswerOdds::Answered(Duration latency, double requests) {
  if (latency >= kYoungest) octaves_[std::min(OctaveOf(latency), last_)].answered += requests;
}

void AnswerOdds::Waits(Duration age, Duration elapsed) {
  for (size_t octave = 0; octave < last_; octave++) {
    const Duration end = kYoungest * (2LL << octave);
    if (age >= end && age - elapsed < end) octaves_[octave].passed++;
  }
}

double AnswerOdds::Of(Duration age) const {
  if (age < kYoungest) return 1;
  // Where nothing was seen yet an octave is like the one before, and the first like what is younger.
  std::array<double, kOctaves> here{};
  double before = 1;
  for (size_t octave = 0; octave <= last_; octave++) {
    const auto& [answered, passed] = octaves_[octave];
    before = here[octave] = (answered + before) / (answered + passed + 1);
  }
  double odds = 0;
  for (size_t octave = last_ + 1; octave-- > OctaveOf(age);) odds = here[octave] + (1 - here[octave]) * odds;
  return odds;
}

}  // namespace spillway::agent

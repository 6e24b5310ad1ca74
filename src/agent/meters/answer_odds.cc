// SPDX-License-Identifier: Apache-2.0
#include "agent/meters/answer_odds.h"

#include <algorithm>
#include <cmath>

#include "bpf/meter_account.h"

namespace spillway::agent {
namespace {

// Time constant. Less: slow requests that are rare are new again when the next one comes. More: what a unit
// that begins to lose requests has lost stays in its queue for longer.
constexpr std::chrono::duration<double> kMemory = std::chrono::seconds(60);

// Of its steps.
uint64_t EndOf(size_t octave) { return uint64_t{SPW_METER_OVERTAKEN_STEPS} << (octave + 1); }

}  // namespace

AnswerOdds::AnswerOdds(uint32_t timeout_steps)
    : timeout_(timeout_steps), last_(spw_meter_overtaken_octave(timeout_steps)) {}

void AnswerOdds::Fade(Duration elapsed) {
  const double keep = std::exp(-std::chrono::duration<double>(elapsed) / kMemory);
  for (Octave& octave : octaves_) {
    octave.answered *= keep;
    octave.passed *= keep;
  }
}

void AnswerOdds::Waits(uint32_t by, uint32_t more) {
  for (size_t octave = 0; octave < last_; octave++)
    if (by >= EndOf(octave) && by - std::min(more, by) < EndOf(octave)) octaves_[octave].passed++;
}

std::array<double, SPW_METER_OVERTAKEN_OCTAVES> AnswerOdds::Each() const {
  // Where nothing was seen yet an octave is like the one before, and the first like what waits in its turn.
  std::array<double, SPW_METER_OVERTAKEN_OCTAVES> each{};
  double before = 1;
  for (size_t octave = 0; octave <= last_; octave++) {
    const auto& [answered, passed] = octaves_[octave];
    before = each[octave] = (answered + before) / (answered + passed + 1);
  }
  for (size_t octave = last_; octave-- > 0;) each[octave] += (1 - each[octave]) * each[octave + 1];
  return each;
}

double AnswerOdds::Of(uint32_t by) const {
  if (by < SPW_METER_OVERTAKEN_STEPS) return 1;
  return Each()[std::min<size_t>(spw_meter_overtaken_octave(by), last_)];
}

uint32_t AnswerOdds::MostlyLostFrom() const {
  const auto each = Each();
  for (size_t octave = 0; octave <= last_; octave++)
    if (each[octave] < 0.5) return std::min<uint32_t>(SPW_METER_OVERTAKEN_STEPS << octave, timeout_);
  return timeout_;
}

}  // namespace spillway::agent

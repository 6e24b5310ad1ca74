// SPDX-License-Identifier: Apache-2.0
// Which part of overtaken requests is answered in the end, by how many later ones overtook them
// (bpf/meter.h). A request that is in progress and one that no answer will come to (a scanner's, or one that
// a full unit dropped) look the same at any moment, but of their kind it was seen what became of them: where
// slow requests are usual most of those that are overtaken are answered, and beside a scanner few are. A
// queue does not overtake itself, however long it is, and a unit that stalls overtakes nothing. A plain
// value.
//
// Octaves of steps are told apart. Of each: how many requests were answered though overtaken by so much, and
// how many were overtaken by more without an answer; both fade. The part that is answered is, as in an
// actuary's life table, that within the octave, and of the rest that in those after it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "agent/config.h"
#include "bpf/meter.h"

namespace spillway::agent {

class AnswerOdds {
 public:
  // timeout: a request that is older, in steps, is given up.
  explicit AnswerOdds(uint32_t timeout_steps);

  void Fade(Duration elapsed);
  void Answered(size_t octave, double requests) { octaves_[octave].answered += requests; }
  // A request overtaken by `by` steps; when it was last looked at, by `more` less.
  void Waits(uint32_t by, uint32_t more);

  // Of requests overtaken by so many steps: 0..1.
  [[nodiscard]] double Of(uint32_t by) const;
  // A request overtaken by so many steps or more is rather lost than not; the time-out, if none is.
  [[nodiscard]] uint32_t MostlyLostFrom() const;

 private:
  struct Octave {
    double answered = 0, passed = 0;
  };
  std::array<double, SPW_METER_OVERTAKEN_OCTAVES> Each()
      const;  // of those in it, the part answered in the end

  uint32_t timeout_;
  size_t last_;
  std::array<Octave, SPW_METER_OVERTAKEN_OCTAVES> octaves_{};
};

}  // namespace spillway::agent

// SPDX-License-Identifier: Apache-2.0
// The highest rate that a testbed sustains, by trying. Pure but for `sustains`.
#pragma once

#include <functional>

#include "base/error.h"

namespace spillway::lab {

// Whether enough is answered in time at this rate, in requests/s, over so many slices together.
using Sustains = std::function<Result<bool>(double rate, int slices)>;

inline constexpr double kSearchStep = 4;  // from one rate to the next until one is lost

struct SearchCare {
  double accuracy = 1.04;  // between the highest rate that was sustained and the lowest that was not
  int confirming_slices = 3;
  int losses = 2;            // slices in a row that must lose for a rate to count as lost
  double bad_moment = 1.12;  // sustained so far above what was found, the search goes on

  // Within so many percent. What need not be within 10 is looked at for a shorter time.
  [[nodiscard]] static SearchCare Within(double percent);
};

// From `first` up (or down, if that is not sustained), then halving the interval between what was sustained
// and what was not, on a logarithmic scale. One slice may be unlucky or lucky: a rate counts as lost when it
// was lost several times, and the answer is confirmed over several slices, else lowered, further each time,
// until it is. A bad moment of the machine may have lost a rate as often: then one that is a little above the
// answer is sustained, and the search goes on from there. Errors: of `sustains`; kSystem when nothing from 1
// to 10 million requests/s is sustained, or all, or when not even a quarter of what was found can be
// confirmed.
[[nodiscard]] Result<double> HighestSustained(double first, const SearchCare& care, const Sustains& sustains);

}  // namespace spillway::lab

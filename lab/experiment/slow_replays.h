// SPDX-License-Identifier: Apache-2.0
// Rounds in which the machine was slow (slow_slices.h) are measured again.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "findings.h"

namespace spillway::lab {

// A slice of each policy, in the level's order of policies. After Ctrl-C some may be empty.
using PlayRound = std::function<Result<std::vector<Slice>>(size_t round)>;

// Plays slow rounds of a level again, the slowest first, each up to kMaxReplays times, in all up to a quarter
// of the level's; of each the quicker one is kept, whole: policies are compared within a round, and a slice
// that was taken at another time, when the machine was quicker, would be favoured. Ctrl-C ends it. Errors: of
// `play`.
[[nodiscard]] Result<void> PlaySlowAgain(Level& level, const PlayRound& play);

}  // namespace spillway::lab

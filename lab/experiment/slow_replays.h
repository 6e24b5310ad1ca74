// SPDX-License-Identifier: Apache-2.0
// Slices in which the machine was slow (slow_slices.h) are measured again.
#pragma once

#include <cstddef>
#include <functional>

#include "findings.h"

namespace spillway::lab {

using PlayRound = std::function<Result<Slice>(size_t policy, size_t round)>;

// Plays slow slices of a level again, the slowest first, each up to kMaxReplays times, in all up to a quarter
// of the level's; of each the quicker one is kept. Ctrl-C ends it. Errors: of `play`.
[[nodiscard]] Result<void> PlaySlowAgain(Level& level, const PlayRound& play);

}  // namespace spillway::lab

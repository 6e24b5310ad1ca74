// SPDX-License-Identifier: Apache-2.0
// What is measured is measured again where the machine disturbed it.
#pragma once

#include <type_traits>
#include <utility>

#include "base/error.h"
#include "machine_watch.h"

namespace spillway::lab {

// What the machine disturbed is played again so many times, then kept.
inline constexpr int kMaxReplays = 2;

template <typename T>
struct Played {
  T result;
  Disturbance disturbance;  // of the machine, as it was last played
  int replays = 0;
};

// Makes ready (unwatched) and plays, and again both while the machine disturbed the play. watch: a
// MachineWatch. ready: Result<void>(). play: Result<T>(). Errors: of those two, at once.
template <typename Watch, typename Ready, typename Play>
auto PlayUndisturbed(Watch& watch, const Ready& ready, const Play& play)
    -> Result<Played<typename std::invoke_result_t<const Play&>::value_type>> {
  for (int replays = 0;; replays++) {
    if (auto is_ready = ready(); !is_ready) return tl::make_unexpected(is_ready.error());
    watch.Begin();
    auto result = play();
    const Disturbance disturbance = watch.End();
    if (!result) return tl::make_unexpected(result.error());
    if (!disturbance.disturbed() || replays == kMaxReplays)
      return Played<typename std::invoke_result_t<const Play&>::value_type>{std::move(*result), disturbance,
                                                                            replays};
  }
}

}  // namespace spillway::lab

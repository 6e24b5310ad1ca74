// SPDX-License-Identifier: Apache-2.0
#include "slow_replays.h"

#include <utility>

#include "base/interrupt.h"
#include "undisturbed.h"

namespace spillway::lab {
namespace {

using Work = std::vector<std::vector<std::vector<UnitWork>>>;  // [policy][round][unit]

Work WorkOf(const Level& level) {
  Work work;
  for (const auto& slices : level.slices) work.push_back(lab::WorkOf(slices));
  return work;
}

// Of a level's rounds, a quarter: the machine may stay slow for minutes, and a sweep has to end.
size_t MaxPlayedAgain(size_t rounds) { return (rounds + 3) / 4; }

}  // namespace

Result<void> PlaySlowAgain(Level& level, const PlayRound& play) {
  const size_t rounds = level.slices.empty() ? 0 : level.slices.front().size();
  std::vector<int> tried(rounds);
  for (size_t left = MaxPlayedAgain(rounds); left > 0; left--) {
    Work work = WorkOf(level);
    const std::vector<double> slowness = SlownessOfRounds(work);
    size_t next = rounds;
    for (size_t round = 0; round < rounds; round++)
      if (slowness[round] > kSlow && tried[round] < kMaxReplays &&
          (next == rounds || slowness[round] > slowness[next]))
        next = round;
    if (next == rounds) break;
    tried[next]++;
    auto again = play(next);
    if (base::Interrupted()) break;
    if (!again) return tl::make_unexpected(again.error());
    for (size_t policy = 0; policy < again->size(); policy++) work[policy][next] = (*again)[policy].units;
    const bool quicker = SlownessOfRounds(work)[next] < slowness[next];
    for (size_t policy = 0; policy < again->size(); policy++) {
      Slice& kept = level.slices[policy][next];
      const int replays = kept.replays + (*again)[policy].replays + 1;
      if (quicker) kept = std::move((*again)[policy]);
      kept.replays = replays;
    }
  }
  return {};
}

}  // namespace spillway::lab

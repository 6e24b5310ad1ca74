// SPDX-License-Identifier: Apache-2.0
#include "slow_replays.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "base/interrupt.h"
#include "undisturbed.h"

namespace spillway::lab {
namespace {

// Of a level's slices: the machine may stay slow for minutes, and a sweep has to end.
constexpr double kMaxPlayedAgain = 0.25;

}  // namespace

Result<void> PlaySlowAgain(Level& level, const PlayRound& play) {
  std::map<std::pair<size_t, size_t>, int> tried;
  size_t left = 0;
  for (const auto& slices : level.slices) left += slices.size();
  for (left = static_cast<size_t>(static_cast<double>(left) * kMaxPlayedAgain); left > 0; left--) {
    std::vector<std::vector<std::vector<UnitWork>>> work;
    for (const auto& slices : level.slices) work.push_back(WorkOf(slices));
    const std::vector<SlowSlice> slow = SlowSlices(work);
    const auto next = std::find_if(slow.begin(), slow.end(), [&](const SlowSlice& one) {
      return tried[{one.policy, one.round}] < kMaxReplays;
    });
    if (next == slow.end()) break;
    tried[{next->policy, next->round}]++;
    auto again = play(next->policy, next->round);
    if (base::Interrupted()) break;
    if (!again) return tl::make_unexpected(again.error());
    Slice& kept = level.slices[next->policy][next->round];
    const int replays = kept.replays + again->replays + 1;
    work[next->policy][next->round] = again->units;
    const auto slowness = SlownessOf(work[next->policy])[next->round];
    if (slowness && *slowness < next->slowness) kept = std::move(*again);
    kept.replays = replays;
  }
  return {};
}

}  // namespace spillway::lab

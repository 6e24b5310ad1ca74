// SPDX-License-Identifier: Apache-2.0
#include "lab/experiment/sweep.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <utility>

#include "base/signals.h"
#include "machine_watch.h"

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

namespace {

constexpr int kMaxLostLevels = 2;  // higher loads would show nothing more
constexpr double kFurtherStep = 1.15;

std::vector<size_t> RandomOrder(size_t count, std::mt19937_64& random) {
  std::vector<size_t> order(count);
  std::iota(order.begin(), order.end(), 0);
  for (size_t left = count; left > 1; left--) std::swap(order[left - 1], order[random() % left]);
  return order;
}

}  // namespace

Result<Slice> PlaySlice(const Bed& bed, MachineWatch& watch, double rate, double seconds, double timeout_s,
                        uint64_t seed) {
  const auto ready = [&] { return bed.Settle(); };
  const auto play = [&]() -> Result<Slice> {
    const std::vector<UnitWork> before = bed.WorkOfUnits();
    auto sample = bed.Load(bed.service().vip, rate, seconds, timeout_s, seed);
    if (!sample) return tl::make_unexpected(sample.error());
    std::vector<UnitWork> units = bed.WorkOfUnits();
    for (size_t i = 0; i < units.size(); i++) {
      units[i].cpu_seconds -= before[i].cpu_seconds;
      units[i].packets -= before[i].packets;
    }
    return Slice{std::move(*sample), {}, 0, std::move(units)};
  };
  return PlayUndisturbed(watch, ready, play).map([](auto played) {
    played.result.disturbance = played.disturbance;
    played.result.replays = played.replays;
    return std::move(played.result);
  });
}

Result<Swept> Sweep(Bed& bed, MachineWatch& watch, const std::vector<double>& levels_pct,
                    const Calibration& calibration, const OnStep& on_step) {
  const ExperimentSpec& spec = bed.spec();
  std::mt19937_64 random(spec.seed);
  Swept swept;
  const size_t policies = spec.policies.size();
  std::vector<double> levels = levels_pct;
  const size_t max_levels = levels.size() + static_cast<size_t>(spec.further);
  double played = 0;
  int all_lost = 0;  // successive levels
  const auto play = [&](const PolicyRun& policy, double rate, uint64_t arrivals_seed) -> Result<Slice> {
    const auto restarted = bed.Balance(policy);
    if (!restarted) return tl::make_unexpected(restarted.error());
    if (*restarted && policy.unit_policy == SPW_UNIT_HEADROOM) {
      // By what its agents have learnt: an unmeasured slice to learn from.
      auto learnt = PlaySlice(bed, watch, rate, spec.seconds, calibration.TimeoutS(), arrivals_seed + 1);
      if (!learnt) return learnt;
    }
    return PlaySlice(bed, watch, rate, spec.seconds, calibration.TimeoutS(), arrivals_seed);
  };
  for (size_t l = 0; l < levels.size(); l++) {
    const double load_pct = levels[l];
    // While another level may come, it is reckoned with.
    const double total =
        static_cast<double>((levels.size() + (levels.size() < max_levels)) * policies) * spec.rounds;
    Level level{load_pct, calibration.limit_ms, calibration.TimeoutS(), {}, {}};
    for (const PolicyRun& policy : spec.policies) level.policies.push_back(policy.name);
    level.slices.resize(policies);
    const double rate = calibration.full_rps * spec.RatePctAt(load_pct) / 100;
    std::vector<uint64_t> arrivals_seeds;
    for (int round = 0; round < spec.rounds && !swept.interrupted; round++) {
      const uint64_t arrivals_seed = arrivals_seeds.emplace_back(random());
      for (size_t i : RandomOrder(policies, random)) {
        on_step(played++ / total, fmt::format("{} at {:.0f} % load, round {} of {}", spec.policies[i].name,
                                              load_pct, round + 1, spec.rounds));
        auto slice = play(spec.policies[i], rate, arrivals_seed);
        // Whatever came back: Ctrl-C reaches the client as well, which may have been cut short.
        swept.interrupted = base::Interrupted();
        if (swept.interrupted) break;
        if (!slice) return tl::make_unexpected(slice.error());
        level.slices[i].push_back(std::move(*slice));
      }
    }
    if (!swept.interrupted) {
      const auto play_round = [&](size_t round) -> Result<std::vector<Slice>> {
        std::vector<Slice> slices(policies);
        for (size_t i : RandomOrder(policies, random)) {
          on_step(played / total, fmt::format("{} at {:.0f} % load, round {} again: the machine was slow",
                                              spec.policies[i].name, load_pct, round + 1));
          auto slice = play(spec.policies[i], rate, arrivals_seeds[round]);
          if (base::Interrupted()) break;
          if (!slice) return tl::make_unexpected(slice.error());
          slices[i] = std::move(*slice);
        }
        return slices;
      };
      if (auto again = PlaySlowAgain(level, play_round); !again) return tl::make_unexpected(again.error());
      swept.interrupted = base::Interrupted();
    }
    if (swept.interrupted && !KeepWholeRounds(level)) break;
    for (Row& row : Summarise(level, spec.baseline, spec.seed, spec.MostLoads())) {
      row.interrupted = swept.interrupted;
      swept.rows.push_back(std::move(row));
    }
    all_lost = AllLost(swept.rows, load_pct, spec.tolerated_loss_pct) ? all_lost + 1 : 0;
    if (all_lost == kMaxLostLevels || swept.interrupted) break;
    if (l + 1 == levels.size() && levels.size() < max_levels && all_lost == 0)
      levels.push_back(std::round(load_pct * kFurtherStep));
  }
  return swept;
}

}  // namespace spillway::lab

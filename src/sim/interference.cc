// SPDX-License-Identifier: Apache-2.0
#include "sim/interference.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

namespace spillway::sim {

Interferer::Interferer(const Interference& interference, uint64_t seed)
    : interference_(interference), pauses_(seed), neighbour_(spw_mix64(seed + 1)) {
  Random phases(spw_mix64(seed + 2));
  stall_phase_ =
      static_cast<int64_t>(phases.Uniform() * static_cast<double>(interference.stall.every.count()));
  drift_phase_ = phases.Uniform();
  neighbour_phase_ =
      static_cast<int64_t>(phases.Uniform() * static_cast<double>(interference.neighbour.every.count()));
}

int64_t Interferer::Pause(bool woken) {
  const auto& pause = interference_.pause;
  if (pause.on_wake && !woken) return 0;
  return pause.share > 0 && pauses_.Uniform() <= pause.share ? pause.length.count() : 0;
}

double Interferer::Slowdown(int64_t start) {
  const auto time = static_cast<double>(start);
  double slowdown = 1;
  if (const auto& cold = interference_.cold; start < cold.length.count())
    slowdown *= 1 + (cold.slowdown - 1) * (1 - time / static_cast<double>(cold.length.count()));
  if (const auto& drift = interference_.drift; drift.amplitude > 0) {
    const double turns = time / static_cast<double>(drift.period.count()) + drift_phase_;
    slowdown /= 1 + drift.amplitude * std::sin(2 * std::numbers::pi * turns);
  }
  if (const auto& neighbour = interference_.neighbour; neighbour.regular) {
    if (NeighbourSince(start)) slowdown *= neighbour.slowdown;
  } else if (neighbour.slowdown > 1) {
    while (neighbour_until_ <= time) {
      neighbour_here_ = !neighbour_here_;
      const Duration mean = neighbour_here_ ? neighbour.length : neighbour.every;
      neighbour_until_ += 1 + neighbour_.Exponential() * static_cast<double>(mean.count());
    }
    if (neighbour_here_) slowdown *= neighbour.slowdown;
  }
  return slowdown;
}

std::optional<int64_t> Interferer::NeighbourSince(int64_t start) const {
  const auto& neighbour = interference_.neighbour;
  if (!neighbour.regular) return std::nullopt;
  const int64_t into = (start + neighbour_phase_) % neighbour.every.count();
  if (into >= neighbour.length.count()) return std::nullopt;
  return std::max<int64_t>(0, start - into);
}

int64_t Interferer::IntoStallCycle(int64_t time) const {
  const int64_t every = interference_.stall.every.count();
  return (time + every - stall_phase_) % every;
}

int64_t Interferer::AfterStall(int64_t time) const {
  const auto& stall = interference_.stall;
  if (stall.length.count() == 0) return time;
  return time + std::max<int64_t>(0, stall.length.count() - IntoStallCycle(time));
}

int64_t Interferer::NextStall(int64_t time) const {
  const auto& stall = interference_.stall;
  if (stall.length.count() == 0) return std::numeric_limits<int64_t>::max();
  return time + stall.every.count() - IntoStallCycle(time);
}

}  // namespace spillway::sim

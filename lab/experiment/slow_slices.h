// SPDX-License-Identifier: Apache-2.0
// Slices in which the machine was slower than in others, by what the units' requests took of CPU time. A
// shared machine may be 1.4 times as slow for minutes, and neither late wake-ups nor stolen time shows it;
// under a quota that is the difference between a load that fits and one that does not. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace spillway::lab {

// What one unit did in one slice.
struct UnitWork {
  double cpu_seconds = 0;
  uint64_t packets = 0;  // that the switch sent to it
};

// Below that a unit's packets in a slice tell nothing of what one costs.
inline constexpr uint64_t kLeastPackets = 30;

// A slice that took more than so many times the CPU time for its packets was slow. Caches, and how many
// requests are worked on at a time, make up to a tenth within one policy at one load.
inline constexpr double kSlow = 1.2;

// Of one policy at one load, by [slice][unit]: the CPU time that each slice took over what its packets take
// in the quicker slices (the lower quartile, unit by unit). nullopt: it had too few packets to tell. No other
// policy is looked at: one that uses units otherwise may find their caches otherwise, too.
[[nodiscard]] std::vector<std::optional<double>> SlownessOf(const std::vector<std::vector<UnitWork>>& slices);

// Of all policies at one load, by [policy][round][unit]: how slow the slowest slice of each round was; 0
// where none tells.
[[nodiscard]] std::vector<double> SlownessOfRounds(
    const std::vector<std::vector<std::vector<UnitWork>>>& policies);

}  // namespace spillway::lab

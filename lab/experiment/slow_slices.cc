// SPDX-License-Identifier: Apache-2.0
#include "slow_slices.h"

#include <algorithm>

namespace spillway::lab {
namespace {

constexpr size_t kLeastSlices = 4;  // of which a quartile says something

std::optional<double> CostOf(const UnitWork& work) {
  if (work.packets < kLeastPackets || work.cpu_seconds <= 0) return std::nullopt;
  return work.cpu_seconds / static_cast<double>(work.packets);
}

// The lower quartile of a unit's cost of a packet.
std::optional<double> QuickCostOf(const std::vector<std::vector<UnitWork>>& slices, size_t unit) {
  std::vector<double> costs;
  for (const auto& slice : slices)
    if (const auto cost = unit < slice.size() ? CostOf(slice[unit]) : std::nullopt) costs.push_back(*cost);
  if (costs.size() < kLeastSlices) return std::nullopt;
  const auto quartile = costs.begin() + static_cast<std::ptrdiff_t>((costs.size() - 1) / 4);
  std::nth_element(costs.begin(), quartile, costs.end());
  return *quartile;
}

}  // namespace

std::vector<std::optional<double>> SlownessOf(const std::vector<std::vector<UnitWork>>& slices) {
  std::vector<double> took(slices.size()), quick(slices.size());
  const size_t units = slices.empty() ? 0 : slices.front().size();
  for (size_t unit = 0; unit < units; unit++) {
    const auto quick_cost = QuickCostOf(slices, unit);
    if (!quick_cost) continue;
    for (size_t i = 0; i < slices.size(); i++) {
      if (unit >= slices[i].size() || !CostOf(slices[i][unit])) continue;
      took[i] += slices[i][unit].cpu_seconds;
      quick[i] += *quick_cost * static_cast<double>(slices[i][unit].packets);
    }
  }
  std::vector<std::optional<double>> slowness(slices.size());
  for (size_t i = 0; i < slices.size(); i++)
    if (quick[i] > 0) slowness[i] = took[i] / quick[i];
  return slowness;
}

std::vector<double> SlownessOfRounds(const std::vector<std::vector<std::vector<UnitWork>>>& policies) {
  std::vector<double> rounds;
  for (const auto& slices : policies) {
    const auto slowness = SlownessOf(slices);
    rounds.resize(std::max(rounds.size(), slowness.size()));
    for (size_t round = 0; round < slowness.size(); round++)
      rounds[round] = std::max(rounds[round], slowness[round].value_or(0));
  }
  return rounds;
}

}  // namespace spillway::lab

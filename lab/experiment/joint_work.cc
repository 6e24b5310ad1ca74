// SPDX-License-Identifier: Apache-2.0
#include "joint_work.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <numeric>
#include <utility>

namespace spillway::lab {
namespace {

double RpsOf(const std::vector<Calibration::Unit>& units) {
  return std::accumulate(units.begin(), units.end(), 0.0,
                         [](double sum, const Calibration::Unit& unit) { return sum + unit.rps; });
}

}  // namespace

double QuotaShare(const CpuQuota& quota) { return std::chrono::duration<double>(quota.quota) / quota.period; }

std::vector<UnitSpec> UnitsOf(const TestbedSpec& testbed) {
  std::vector<UnitSpec> units;
  for (const ServerSpec& server : testbed.servers)
    units.insert(units.end(), server.units.begin(), server.units.end());
  return units;
}

std::optional<double> CostOverAlone(const std::vector<UnitSpec>& units,
                                    const std::vector<Calibration::Unit>& alone, double cpu_seconds,
                                    double answers) {
  double weights = 0, alone_cost = 0;
  for (size_t i = 0; i < units.size(); i++) {
    if (!units[i].quota || units[i].neighbour || alone[i].rps <= 0) return std::nullopt;
    weights += units[i].capacity;  // as wrr spreads requests
    alone_cost += units[i].capacity * QuotaShare(*units[i].quota) / alone[i].rps;
  }
  if (answers <= 0 || cpu_seconds <= 0 || alone_cost <= 0) return std::nullopt;
  return cpu_seconds / answers / (alone_cost / weights);
}

std::optional<std::vector<double>> CostsOverAlone(const std::vector<UnitSpec>& units,
                                                  const std::vector<Calibration::Unit>& alone,
                                                  const std::vector<UnitWork>& work, double answered) {
  constexpr double kLeast = 0.5, kMost = 2;
  std::vector<std::optional<double>> known(units.size());
  double took = 0, took_alone = 0;
  for (size_t i = 0; i < units.size() && i < work.size(); i++) {
    if (!units[i].quota || units[i].neighbour || alone[i].rps <= 0 || work[i].packets < kLeastPackets)
      continue;
    const double cost_alone = QuotaShare(*units[i].quota) / alone[i].rps;
    const double all_alone = cost_alone * answered * static_cast<double>(work[i].packets);
    known[i] = work[i].cpu_seconds / all_alone;
    took += work[i].cpu_seconds;
    took_alone += all_alone;
  }
  if (took <= 0 || took_alone <= 0) return std::nullopt;
  const double together = took / took_alone;
  if (together < kLeast || together > kMost) return std::nullopt;
  std::vector<double> factors;
  for (const auto& factor : known) factors.push_back(std::clamp(factor.value_or(together), kLeast, kMost));
  return factors;
}

double SlowdownTogether(const std::vector<UnitSpec>& units, const std::vector<Calibration::Unit>& alone,
                        double full_rps, const std::vector<JointCost>& costs) {
  constexpr double kNear = 0.5, kNoMore = 1.1;  // of 100 % load
  double cpu_seconds = 0, answers = 0;
  for (const JointCost& cost : costs) {
    if (cost.rate < kNear * full_rps || cost.rate > kNoMore * full_rps) continue;
    cpu_seconds += cost.cpu_seconds;
    answers += cost.answers;
  }
  return std::max(1.0, CostOverAlone(units, alone, cpu_seconds, answers).value_or(1));
}

Result<std::vector<Calibration::Unit>> MeasuredFastEnough(
    std::vector<Calibration::Unit> alone, double full_rps,
    const std::function<Result<std::vector<Calibration::Unit>>()>& measure) {
  constexpr int kMaxRepeats = 2;
  constexpr double kPrecision = 0.97;  // of both measurements
  for (int repeats = 0; repeats < kMaxRepeats && RpsOf(alone) < kPrecision * full_rps; repeats++) {
    auto again = measure();
    if (!again) return again;
    if (RpsOf(*again) > RpsOf(alone)) alone = std::move(*again);
  }
  return alone;
}

}  // namespace spillway::lab

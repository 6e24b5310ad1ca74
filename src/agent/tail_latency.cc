// SPDX-License-Identifier: Apache-2.0
#include "agent/tail_latency.h"

#include <cmath>

namespace spillway::agent {
namespace {

constexpr double kQuantile = 0.98;
constexpr double kMemory = 384;     // answers of a level: waits are not held against the unit for long
constexpr double kMinAnswers = 64;  // fewer: those of the next levels count as well
// Of the load. What waits when it rises belongs to the higher load, and so does what still waits when it
// falls.
constexpr double kRiseNs = 25e6, kFallNs = 100e6;

}  // namespace

void TailLatency::Learn(const spw_meter_counts& before, const spw_meter_counts& after, double elapsed_ns,
                        double slot_ns) {
  const double busy = static_cast<double>(after.completed - before.completed) * slot_ns / elapsed_ns;
  const double memory_ns = busy > utilization_ ? kRiseNs : kFallNs;
  utilization_ += (busy - utilization_) * (1 - std::exp(-elapsed_ns / memory_ns));
  if (after.timed == before.timed) return;
  LatencySample& answers = answers_[Level()];
  answers.Fade(std::exp(-static_cast<double>(after.timed - before.timed) / kMemory));
  answers.Add(before, after);
}

double TailLatency::Ns() const {
  const size_t level = Level();
  LatencySample answers = answers_[level];
  for (size_t off = 1; off < kLevels && answers.count() < kMinAnswers; off++) {
    if (level + off < kLevels) answers.Add(answers_[level + off]);
    if (level >= off) answers.Add(answers_[level - off]);
  }
  return answers.Quantile(kQuantile);
}

}  // namespace spillway::agent

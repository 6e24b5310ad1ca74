// SPDX-License-Identifier: Apache-2.0
#include "agent/tail_latency.h"

#include <cmath>

namespace spillway::agent {
namespace {

constexpr double kQuantile = 0.98;
constexpr double kMemory = 384;     // answers of a level: waits are not held against the unit for long
constexpr double kMinAnswers = 64;  // fewer: those of the next levels count as well
// Of the load: over some periods of a CPU quota, and soon enough after a jump.
constexpr double kLoadMemoryNs = 100e6, kRiseNs = 25e6;

double Moved(double average, double busy, double elapsed_ns, double memory_ns) {
  return average + (busy - average) * (1 - std::exp(-elapsed_ns / memory_ns));
}

}  // namespace

void TailLatency::Learn(const spw_meter_counts& before, const spw_meter_counts& after, double elapsed_ns,
                        double slot_ns) {
  const double busy = static_cast<double>(after.completed - before.completed) * slot_ns / elapsed_ns;
  load_ = Moved(load_, busy, elapsed_ns, kLoadMemoryNs);
  burst_load_ = Moved(burst_load_, busy, elapsed_ns, busy > burst_load_ ? kRiseNs : kLoadMemoryNs);
  if (after.timed == before.timed) return;
  LatencySample& answers = answers_[LevelOf(burst_load_)];
  answers.Fade(std::exp(-static_cast<double>(after.timed - before.timed) / kMemory));
  answers.Add(before, after);
}

double TailLatency::Ns() const {
  const size_t level = LevelOf(load_);
  LatencySample answers = answers_[level];
  for (size_t off = 1; off < kLevels && answers.count() < kMinAnswers; off++) {
    if (level + off < kLevels) answers.Add(answers_[level + off]);
    if (level >= off) answers.Add(answers_[level - off]);
  }
  return answers.Quantile(kQuantile);
}

}  // namespace spillway::agent

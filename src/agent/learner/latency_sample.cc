// SPDX-License-Identifier: Apache-2.0
#include "agent/learner/latency_sample.h"

#include <algorithm>
#include <cmath>

namespace spillway::agent {

namespace {

constexpr double kMaxWeight = 1e100;  // of 1e308, and a fading's exp(-n) may be small

double FloorNs(uint32_t bucket) {
  return static_cast<double>(spw_meter_histogram_floor(bucket)) * (1 << SPW_METER_STEP_SHIFT);
}

}  // namespace

void LatencySample::Add(const spw_meter_counts& before, const spw_meter_counts& after) {
  if (after.timed == before.timed) return;
  for (uint32_t i = 0; i < SPW_METER_HISTOGRAM; i++) {
    if (after.histogram[i] <= before.histogram[i]) continue;
    const double more = weight_ * static_cast<double>(after.histogram[i] - before.histogram[i]);
    bucket_[i] += more;
    weighed_ += more;
  }
}

void LatencySample::Add(const LatencySample& other) {
  if (other.weighed_ == 0) return;
  const double scale = weight_ / other.weight_;
  for (uint32_t i = 0; i < SPW_METER_HISTOGRAM; i++) bucket_[i] += scale * other.bucket_[i];
  weighed_ += scale * other.weighed_;
}

void LatencySample::Fade(double keep) {
  weight_ /= keep;
  if (weight_ < kMaxWeight) return;
  for (double& bucket : bucket_) bucket /= weight_;
  weighed_ /= weight_;
  weight_ = 1;
}

double LatencySample::Quantile(double q) const {
  const double wanted = q * weighed_;
  double seen = 0, found = 0;
  for (uint32_t i = 0; i < SPW_METER_HISTOGRAM; i++) {
    const double here = bucket_[i];
    if (here <= 0) continue;
    found = FloorNs(i) + (FloorNs(i + 1) - FloorNs(i)) * std::clamp((wanted - seen) / here, 0.0, 1.0);
    seen += here;
    if (seen >= wanted) break;
  }
  return found;
}

double LatencySample::MeanBeyond(double ns, double most_ns, double least) const {
  double longer = 0, sum = 0;
  for (uint32_t i = 0; i < SPW_METER_HISTOGRAM; i++) {
    const double middle = (FloorNs(i) + FloorNs(i + 1)) / 2;
    if (middle <= ns || middle > most_ns) continue;
    longer += bucket_[i];
    sum += bucket_[i] * (middle - ns);
  }
  return longer < least * weight_ ? 0 : sum / longer;
}

namespace {

constexpr double kQuantile = 0.98;
// Answers of a level that are remembered: so many to twice as many. A quantile that fades would take four
// times as long to forget an overload.
constexpr double kMemory = 384;
constexpr double kMinAnswers = 64;  // fewer: those of the next levels count as well
// Answers at the next level after which a level's own are old. Where the load is close to a level's bound,
// one may be read while answers count for the other, and would go on telling of the last overload.
constexpr double kNextMemory = 256;
// In less time a unit is either at work or not, and its load is whatever the look met.
constexpr double kLookNs = 5e6;
// Of the load: over some periods of a CPU quota, and soon enough after a jump.
constexpr double kLoadMemoryNs = 100e6, kRiseNs = 25e6, kFallNs = 500e6;

double Moved(double average, double busy, double elapsed_ns, double memory_ns) {
  return average + (busy - average) * (1 - std::exp(-elapsed_ns / memory_ns));
}

}  // namespace

void TailLatency::Learn(const spw_meter_counts& before, const spw_meter_counts& after, double elapsed_ns,
                        uint32_t queue, double slot_ns) {
  const bool restarted = before.completed < before_.completed || before.timed < before_.timed;
  if (elapsed_ns_ == 0 || restarted) {
    before_ = before;
    elapsed_ns_ = 0;
  }
  elapsed_ns_ += elapsed_ns;
  if (elapsed_ns_ < kLookNs) return;
  LearnLook(after, elapsed_ns_, queue, slot_ns);
  elapsed_ns_ = 0;
}

void TailLatency::LearnLook(const spw_meter_counts& after, double elapsed_ns, uint32_t queue,
                            double slot_ns) {
  // A unit with a long queue is not half idle, even where its slot was learnt too short.
  const double busy =
      std::max(static_cast<double>(after.completed - before_.completed) * slot_ns / elapsed_ns,
               queue * slot_ns / kLoadMemoryNs);
  load_ = Moved(load_, busy, elapsed_ns, kLoadMemoryNs);
  burst_load_ = Moved(burst_load_, busy, elapsed_ns, busy > burst_load_ ? kRiseNs : kFallNs);
  if (after.timed == before_.timed) return;
  const size_t at = LevelOf(burst_load_);
  Level& level = levels_[at];
  if (level.latest.count() >= kMemory) level = {{}, level.latest};
  level.latest.Add(before_, after);
  const double keep = std::exp(-static_cast<double>(after.timed - before_.timed) / kNextMemory);
  if (at > 0) levels_[at - 1].Fade(keep);
  if (at + 1 < kLevels) levels_[at + 1].Fade(keep);
}

void TailLatency::Level::Fade(double keep) {
  latest.Fade(keep);
  before.Fade(keep);
}

LatencySample TailLatency::Answers(size_t level) const {
  LatencySample answers = levels_[level].latest;
  answers.Add(levels_[level].before);
  return answers;
}

double TailLatency::Ns() const {
  const size_t level = LevelOf(load_);
  LatencySample answers = Answers(level);
  for (size_t off = 1; off < kLevels && answers.count() < kMinAnswers; off++) {
    if (level + off < kLevels) answers.Add(Answers(level + off));
    if (level >= off) answers.Add(Answers(level - off));
  }
  return answers.Quantile(kQuantile);
}

}  // namespace spillway::agent

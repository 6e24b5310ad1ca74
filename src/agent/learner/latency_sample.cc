// SPDX-License-Identifier: Apache-2.0
#include "agent/learner/latency_sample.h"

#include <algorithm>

namespace spillway::agent {
namespace {

double FloorNs(uint32_t bucket) {
  return static_cast<double>(spw_meter_histogram_floor(bucket)) * (1 << SPW_METER_STEP_SHIFT);
}

}  // namespace

void LatencySample::Add(const spw_meter_counts& before, const spw_meter_counts& after) {
  if (after.timed == before.timed) return;
  for (uint32_t i = 0; i < SPW_METER_HISTOGRAM; i++) {
    if (after.histogram[i] <= before.histogram[i]) continue;
    const double more = static_cast<double>(after.histogram[i] - before.histogram[i]);
    bucket_[i] += more;
    count_ += more;
  }
}

void LatencySample::Add(const LatencySample& other) {
  if (other.count_ == 0) return;
  for (uint32_t i = 0; i < SPW_METER_HISTOGRAM; i++) bucket_[i] += other.bucket_[i];
  count_ += other.count_;
}

void LatencySample::Fade(double keep) {
  for (double& bucket : bucket_) bucket *= keep;
  count_ *= keep;
}

double LatencySample::Quantile(double q) const {
  const double wanted = q * count_;
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
  return longer < least ? 0 : sum / longer;
}

}  // namespace spillway::agent

// SPDX-License-Identifier: Apache-2.0
#include "agent/learner/latency_sample.h"

#include <algorithm>

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

}  // namespace spillway::agent

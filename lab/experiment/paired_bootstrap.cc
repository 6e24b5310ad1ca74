// SPDX-License-Identifier: Apache-2.0
#include "paired_bootstrap.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

namespace spillway::lab {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kZ = 1.6448536269514722;  // of the normal distribution, for kConfidence

// Student's t for kConfidence, by the Cornish-Fisher expansion (Abramowitz and Stegun 26.7.5): to 1 % from
// three degrees of freedom on.
double StudentT(double freedom) {
  const double z2 = kZ * kZ;
  const double g1 = kZ * (z2 + 1) / 4;
  const double g2 = kZ * ((5 * z2 + 16) * z2 + 3) / 96;
  const double g3 = kZ * (((3 * z2 + 19) * z2 + 17) * z2 - 15) / 384;
  return kZ + (g1 + (g2 + g3 / freedom) / freedom) / freedom;
}

// The share of resamples that lies outside, on each side.
double TailOf(size_t rounds) {
  const auto n = static_cast<double>(rounds);
  const double z = std::sqrt(n / (n - 1)) * StudentT(n - 1);
  return 0.5 * std::erfc(z / std::sqrt(2.0));
}

// Nothing over nothing is 1: neither lost a request.
double RatioOf(double mine, double theirs) { return mine == theirs ? 1 : mine / theirs; }

P99Verdict VerdictOf(const std::optional<Interval>& ratio) {
  if (!ratio) return P99Verdict::kNoDifference;
  if (ratio->high < 1) return P99Verdict::kBetter;
  if (ratio->low > kHarmfulRatio) return P99Verdict::kHarmful;
  if (ratio->low > 1) return P99Verdict::kWorse;
  return P99Verdict::kNoDifference;
}

}  // namespace

std::string_view ToString(P99Verdict verdict) {
  switch (verdict) {
    case P99Verdict::kBetter:
      return "better";
    case P99Verdict::kNoDifference:
      return "no difference shown";
    case P99Verdict::kWorse:
      return "worse";
    case P99Verdict::kHarmful:
      return "harmful";
  }
  return "";
}

PairedBootstrap::PairedBootstrap(const std::vector<std::vector<SliceOutcome>>& policies, uint64_t seed,
                                 int resamples)
    : rounds_(policies.front().size()), all_(rounds_, 1) {
  for (const std::vector<SliceOutcome>& slices : policies) {
    Policy policy;
    for (uint32_t round = 0; round < rounds_; round++) {
      const SliceOutcome& slice = slices[round];
      policy.requests.push_back(slice.latencies_ms.size());
      policy.in_time.push_back(slice.in_time);
      for (double ms : slice.latencies_ms) policy.descending.push_back({ms, round});
    }
    std::sort(policy.descending.begin(), policy.descending.end(),
              [](const auto& a, const auto& b) { return a.ms > b.ms; });
    if (!policy.descending.empty()) longest_ms_ = std::max(longest_ms_, policy.descending.front().ms);
    policy.p99_ms = Percentile(policy, 99, all_);
    policies_.push_back(std::move(policy));
  }
  if (rounds_ < kMinRounds) return;
  std::mt19937_64 random(seed);
  for (int i = 0; i < resamples; i++) {
    std::vector<uint32_t> weights(rounds_, 0);
    for (size_t draw = 0; draw < rounds_; draw++) weights[random() % rounds_]++;
    for (Policy& policy : policies_) {
      policy.p99s_ms.push_back(Percentile(policy, 99, weights));
      policy.lost.push_back(Lost(policy, weights));
    }
  }
}

// Nearest rank, as report::Percentile, of the slices repeated as often as drawn. Walks from the top: a high
// percentile is found within a few per cent of the latencies.
double PairedBootstrap::Percentile(const Policy& policy, double percent,
                                   const std::vector<uint32_t>& weights) {
  uint64_t total = 0;
  for (size_t round = 0; round < weights.size(); round++) total += weights[round] * policy.requests[round];
  if (total == 0) return kNaN;
  const auto count = static_cast<double>(total);
  const double rank = std::clamp(std::ceil(percent / 100 * count - 1e-9 * count), 1.0, count);
  const uint64_t from_top = total - static_cast<uint64_t>(rank) + 1;
  uint64_t seen = 0;
  for (const Policy::Latency& latency : policy.descending) {
    seen += weights[latency.round];
    if (seen >= from_top) return latency.ms;
  }
  return kNaN;
}

double PairedBootstrap::Lost(const Policy& policy, const std::vector<uint32_t>& weights) {
  uint64_t requests = 0, in_time = 0;
  for (size_t round = 0; round < weights.size(); round++) {
    requests += weights[round] * policy.requests[round];
    in_time += weights[round] * policy.in_time[round];
  }
  return requests == 0 ? kNaN : 1 - static_cast<double>(in_time) / static_cast<double>(requests);
}

std::optional<Interval> PairedBootstrap::IntervalOf(std::vector<double> values) const {
  std::erase_if(values, [](double value) { return std::isnan(value); });
  if (rounds_ < kMinRounds || values.empty()) return std::nullopt;
  std::sort(values.begin(), values.end());
  const auto last = static_cast<double>(values.size() - 1);
  const auto below = static_cast<size_t>(std::floor(TailOf(rounds_) * last));
  return Interval{values[below], values[values.size() - 1 - below]};
}

double PairedBootstrap::PercentileMs(size_t policy, double percent) const {
  return Percentile(policies_[policy], percent, all_);
}

double PairedBootstrap::AnsweredPct(size_t policy) const { return 100 * (1 - Lost(policies_[policy], all_)); }

std::optional<Interval> PairedBootstrap::P99Interval(size_t policy) const {
  return IntervalOf(policies_[policy].p99s_ms);
}

P99Comparison PairedBootstrap::Compare(size_t policy, size_t other) const {
  const Policy &mine = policies_[policy], &theirs = policies_[other];
  const bool by_loss = mine.p99_ms >= longest_ms_ && theirs.p99_ms >= longest_ms_;
  const std::vector<double>&ours = by_loss ? mine.lost : mine.p99s_ms,
        &others = by_loss ? theirs.lost : theirs.p99s_ms;
  std::vector<double> ratios;
  for (size_t i = 0; i < ours.size(); i++) ratios.push_back(RatioOf(ours[i], others[i]));
  P99Comparison comparison;
  comparison.ratio =
      by_loss ? RatioOf(Lost(mine, all_), Lost(theirs, all_)) : RatioOf(mine.p99_ms, theirs.p99_ms);
  comparison.interval = IntervalOf(std::move(ratios));
  comparison.verdict = VerdictOf(comparison.interval);
  return comparison;
}

}  // namespace spillway::lab

// SPDX-License-Identifier: Apache-2.0
#include "paired_bootstrap.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>

namespace spillway::lab {
namespace {

constexpr double kUndefined = std::numeric_limits<double>::quiet_NaN();

double NormalTail(double z) { return 0.5 * std::erfc(z / std::sqrt(2.0)); }

// The z that so much of the normal distribution lies beyond. Bisection: to 1e-12.
double NormalQuantile(double tail) {
  double low = 0, high = 40;
  for (int i = 0; i < 50; i++) {
    const double middle = (low + high) / 2;
    (NormalTail(middle) > tail ? low : high) = middle;
  }
  return low;
}

// Student's t that so much lies beyond, by the Cornish-Fisher expansion (Abramowitz and Stegun 26.7.5): for
// 5 % to 1 % from three degrees of freedom on, for 1 % to 4 %.
double StudentT(double tail, double freedom) {
  const double z = NormalQuantile(tail), z2 = z * z;
  const double g1 = z * (z2 + 1) / 4;
  const double g2 = z * ((5 * z2 + 16) * z2 + 3) / 96;
  const double g3 = z * (((3 * z2 + 19) * z2 + 17) * z2 - 15) / 384;
  return z + (g1 + (g2 + g3 / freedom) / freedom) / freedom;
}

// The share of resamples that lies outside, on each side.
double TailOf(size_t rounds, double confidence) {
  const auto n = static_cast<double>(rounds);
  return NormalTail(std::sqrt(n / (n - 1)) * StudentT((1 - confidence) / 2, n - 1));
}

// The share of inversions that may be as far from 1, of a difference at one of so many loads.
double MostChance(size_t loads) { return (1 - kConfidence) / 2 / static_cast<double>(loads) + 1e-12; }

// Nothing over nothing is 1: neither lost a request.
double RatioOf(double mine, double theirs) { return mine == theirs ? 1 : mine / theirs; }

// All inversions are tried of up to so many rounds; of more, so many drawn at random.
constexpr size_t kAllInvertedRounds = 12;

// The share of inversions whose sum is at least that of `differences`.
double ChanceOf(const std::vector<double>& differences, uint64_t seed) {
  const bool all = differences.size() <= kAllInvertedRounds;
  const uint64_t tries = uint64_t{1} << std::min(differences.size(), kAllInvertedRounds);
  const double measured = std::accumulate(differences.begin(), differences.end(), 0.0);
  std::mt19937_64 random(seed);
  uint64_t as_far = 0;
  for (uint64_t i = 0; i < tries; i++) {
    uint64_t inverted = all ? i : random();
    double sum = 0;
    for (double difference : differences) {
      sum += (inverted & 1) != 0 ? -difference : difference;
      inverted = std::rotr(inverted, 1);
    }
    as_far += sum >= measured - 1e-12;
  }
  return static_cast<double>(as_far) / static_cast<double>(tries);
}

P99Verdict VerdictOf(const Interval& ratio) {
  if (ratio.high < 1) return P99Verdict::kBetter;
  if (ratio.low > kHarmfulRatio) return P99Verdict::kHarmful;
  if (ratio.low > 1) return P99Verdict::kWorse;
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
    case P99Verdict::kTooFewRounds:
      return "too few slices for a verdict";
  }
  return "";
}

size_t RoundsForVerdict(size_t loads) {
  size_t rounds = kMinRounds;
  while (std::ldexp(1.0, -static_cast<int>(rounds)) > MostChance(loads)) rounds++;
  return rounds;
}

PairedBootstrap::PairedBootstrap(const std::vector<std::vector<SliceOutcome>>& policies, uint64_t seed,
                                 size_t loads, int resamples)
    : rounds_(policies.front().size()),
      loads_(loads),
      ratio_confidence_(1 - (1 - kConfidence) / static_cast<double>(loads)),
      seed_(seed),
      all_(rounds_, 1) {
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
  if (total == 0) return kUndefined;
  const auto count = static_cast<double>(total);
  const double rank = std::clamp(std::ceil(percent / 100 * count - 1e-9 * count), 1.0, count);
  const uint64_t from_top = total - static_cast<uint64_t>(rank) + 1;
  uint64_t seen = 0;
  for (const Policy::Latency& latency : policy.descending) {
    seen += weights[latency.round];
    if (seen >= from_top) return latency.ms;
  }
  return kUndefined;
}

double PairedBootstrap::Lost(const Policy& policy, const std::vector<uint32_t>& weights) {
  uint64_t requests = 0, in_time = 0;
  for (size_t round = 0; round < weights.size(); round++) {
    requests += weights[round] * policy.requests[round];
    in_time += weights[round] * policy.in_time[round];
  }
  return requests == 0 ? kUndefined : 1 - static_cast<double>(in_time) / static_cast<double>(requests);
}

std::vector<double> PairedBootstrap::Differences(const Policy& mine, const Policy& theirs,
                                                 bool by_loss) const {
  std::vector<double> differences;
  for (size_t round = 0; round < rounds_; round++) {
    std::vector<uint32_t> only(rounds_, 0);
    only[round] = 1;
    const double difference =
        by_loss ? Lost(mine, only) - Lost(theirs, only)
                : std::log(RatioOf(Percentile(mine, 99, only), Percentile(theirs, 99, only)));
    differences.push_back(std::isfinite(difference) ? difference : 0);
  }
  return differences;
}

std::optional<Interval> PairedBootstrap::IntervalOf(std::vector<double> values, double confidence) const {
  std::erase_if(values, [](double value) { return std::isnan(value); });
  if (rounds_ < kMinRounds || values.empty()) return std::nullopt;
  std::sort(values.begin(), values.end());
  const auto last = static_cast<double>(values.size() - 1);
  const auto below = static_cast<size_t>(std::floor(TailOf(rounds_, confidence) * last));
  return Interval{values[below], values[values.size() - 1 - below]};
}

double PairedBootstrap::PercentileMs(size_t policy, double percent) const {
  return Percentile(policies_[policy], percent, all_);
}

double PairedBootstrap::AnsweredPct(size_t policy) const { return 100 * (1 - Lost(policies_[policy], all_)); }

std::optional<Interval> PairedBootstrap::P99Interval(size_t policy) const {
  return IntervalOf(policies_[policy].p99s_ms, kConfidence);
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
  comparison.interval = IntervalOf(std::move(ratios), ratio_confidence_);
  if (!comparison.interval || rounds_ < RoundsForVerdict(loads_)) return comparison;
  const P99Verdict by_interval = VerdictOf(*comparison.interval);
  const bool better = by_interval == P99Verdict::kBetter;
  const double chance =
      ChanceOf(better ? Differences(theirs, mine, by_loss) : Differences(mine, theirs, by_loss), seed_);
  comparison.verdict = chance <= MostChance(loads_) ? by_interval : P99Verdict::kNoDifference;
  return comparison;
}

}  // namespace spillway::lab

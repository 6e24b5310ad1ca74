// SPDX-License-Identifier: Apache-2.0
// How policies compare at one load, from slices that were played in rounds: percentiles over all slices of a
// policy, the interval of their ratio, and the verdict on it (better, worse, harmful, no difference shown),
// or that there are too few rounds for one.
// Pure; the same seed gives the same intervals on any machine.
//
// A resample draws rounds with replacement and takes the slices of all policies from the rounds drawn, so
// that what the machine did in a round weighs on all of them alike. The interval is the bootstrap's
// percentile interval, with its tails corrected for the small number of rounds (the expanded percentile
// interval: Hesterberg, The American Statistician 69, 2015, section 4.2): without that, eight rounds would
// give an interval of 90 % that holds the truth in some 83 % of cases.
//
// A sweep compares two policies at each of its loads, and a reader asks whether one is worse anywhere: with
// twelve intervals of 90 %, a policy would be found worse than itself at some load in nearly every second
// sweep. So a ratio's interval is of 1 - 0.1 / loads (Bonferroni): all of them together hold in 90 % of
// sweeps.
//
// Where a few slices make p99 and the others have nothing of it (a CPU quota used up), five to eight rounds
// do not tell a bootstrap how rare they are, and its intervals are too short. So a verdict also needs the
// randomization test by the rounds' ratios of p99 (the mean of their logarithms), which is exact for any
// distribution: policies play in random order within a round, so if they are alike, a round's ratio might as
// well be its inverse; a difference is shown if at most 0.05 / loads of all such inversions lie as far
// from 1.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace spillway::lab {

// What became of one slice's requests.
struct SliceOutcome {
  std::vector<double> latencies_ms;  // of every request, ascending; the time-out where there was no answer
  uint64_t in_time = 0;              // answered within the limit
};

struct Interval {
  double low = 0, high = 0;
  bool operator==(const Interval&) const = default;
};

// Of one policy's p99 against another's.
enum class P99Verdict {
  kBetter,        // the interval lies below 1, and the randomization test shows a difference
  kNoDifference,  // neither, though there were rounds enough to show one
  kWorse,         // above 1
  kHarmful,       // above kHarmfulRatio
  kTooFewRounds,  // than RoundsForVerdict, or a policy without a request: nothing could be shown
};
inline constexpr double kHarmfulRatio = 1.15;
[[nodiscard]] std::string_view ToString(P99Verdict verdict);  // "better", "no difference shown", ...

struct P99Comparison {
  double ratio = 1;                  // of p99 over all slices
  std::optional<Interval> interval;  // of the ratio; nullopt: too few rounds
  P99Verdict verdict = P99Verdict::kTooFewRounds;
};

inline constexpr int kResamples = 10'000;
inline constexpr double kConfidence = 0.9;  // of a percentile's interval; of all ratios' together
// With fewer there is no interval.
inline constexpr size_t kMinRounds = 4;
// With fewer there is no verdict at any of so many loads: even if all rounds differ in the same way, the
// randomization test finds chance enough to explain it.
[[nodiscard]] size_t RoundsForVerdict(size_t loads);

class PairedBootstrap {
 public:
  // policies[p][r]: policy p in round r; all have the same rounds, at least one. loads: at so many two
  // policies are compared, at least 1.
  PairedBootstrap(const std::vector<std::vector<SliceOutcome>>& policies, uint64_t seed, size_t loads = 1,
                  int resamples = kResamples);

  // Over all slices of the policy. NaN without requests.
  [[nodiscard]] double PercentileMs(size_t policy, double percent) const;
  [[nodiscard]] double AnsweredPct(size_t policy) const;
  [[nodiscard]] std::optional<Interval> P99Interval(size_t policy) const;
  // Where both p99 are the time-out, which is as far as a latency is measured, the shares of requests that
  // were not answered in time decide instead: the ratio and its interval are then of these.
  [[nodiscard]] P99Comparison Compare(size_t policy, size_t other) const;

 private:
  struct Policy {
    struct Latency {
      double ms;
      uint32_t round;
    };
    std::vector<Latency> descending;
    std::vector<uint64_t> requests, in_time;  // per round
    double p99_ms = 0;
    std::vector<double> p99s_ms, lost;  // per resample
  };
  static double Percentile(const Policy& policy, double percent, const std::vector<uint32_t>& weights);
  static double Lost(const Policy& policy, const std::vector<uint32_t>& weights);
  // Of each round: the logarithm of the ratio of p99; or by how much the first lost more.
  [[nodiscard]] std::vector<double> Differences(const Policy& mine, const Policy& theirs, bool by_loss) const;
  [[nodiscard]] std::optional<Interval> IntervalOf(std::vector<double> values, double confidence) const;

  size_t rounds_, loads_;
  double ratio_confidence_;
  uint64_t seed_;
  double longest_ms_ = 0;
  std::vector<uint32_t> all_;  // each round once
  std::vector<Policy> policies_;
};

}  // namespace spillway::lab

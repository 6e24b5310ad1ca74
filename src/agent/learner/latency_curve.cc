// SPDX-License-Identifier: Apache-2.0
#include "agent/learner/latency_curve.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "bpf/meter_backlog.h"

namespace spillway::agent {
namespace {

constexpr double kMemory = 1500;    // answers of a bin: fewer are noise where services vary as their mean
constexpr double kMinAnswers = 8;   // fewer say nothing
constexpr double kQuickWeight = 4;  // answers: the price of trying a unit again
// A hundred answers are as sure as thousands: else the usual backlog alone would be fitted.
constexpr double kMaxWeight = 100;
// Of knees that fit alike the lowest within what was seen: sooner careful.
constexpr double kFitsAlike = 0.98;
// Tried, in slots: the ends of what was seen, and these below the upper one.
constexpr std::array<double, 14> kKnees = {1, 1.5, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 128};

double Square(double value) { return value * value; }

// What a fit goes by, of each backlog that was seen: passed over for each knee that is tried.
struct Means {
  struct Mean {
    double queue_ns, latency_ns;  // the request's own slot is in the queue
    double weight, miss_weight;
  };
  std::array<Mean, SPW_METER_BINS> at;
  size_t count = 0;
  const Mean* begin() const { return at.data(); }
  const Mean* end() const { return at.data() + count; }
};

struct Line {
  double base_ns, missed;
};

Line Through(const Means& means, double knee_ns, double quickest_ns) {
  double weight = kQuickWeight, sum = kQuickWeight * quickest_ns, missed = 0;
  for (const Means::Mean& mean : means) {
    weight += mean.weight;
    sum += mean.weight * (mean.latency_ns - std::max(0.0, mean.queue_ns - knee_ns));
  }
  const double base = std::max(sum / weight, 1.0);
  for (const Means::Mean& mean : means)
    missed += mean.miss_weight * Square(mean.latency_ns - base - std::max(0.0, mean.queue_ns - knee_ns));
  return {base, missed};
}

double Ns(uint64_t steps) { return static_cast<double>(steps) * (1 << SPW_METER_STEP_SHIFT); }

}  // namespace

void LatencyCurve::Bin::Fade(double keep) {
  answers *= keep;
  backlog *= keep;
  latency_ns *= keep;
  latency_ns2 *= keep;
}

void LatencyCurve::Fade(double keep) {
  for (Bin& bin : bins_) bin.Fade(keep);
}

double LatencyCurve::Predict(double backlog_slots) const {
  return base_ns_ + std::max(0.0, (backlog_slots + 1) * slot_ns_ - knee_ns_);
}

LatencyCurve::Seen LatencyCurve::Learn(const spw_meter_outcome (&before)[SPW_METER_BINS],
                                       const spw_meter_outcome (&after)[SPW_METER_BINS]) {
  Seen seen;
  for (size_t b = 0; b < SPW_METER_BINS; b++) {
    Bin news;
    news.answers = static_cast<double>(after[b].answers - before[b].answers);
    if (news.answers <= 0) continue;
    news.backlog = static_cast<double>(after[b].backlog - before[b].backlog) / SPW_METER_SLOT_FRACTION;
    news.latency_ns = Ns(after[b].latency_steps - before[b].latency_steps);
    news.latency_ns2 = Ns(after[b].latency_steps2 - before[b].latency_steps2) * (1 << SPW_METER_STEP_SHIFT);
    const double predicted = Predict(news.Slots());
    seen.answers += news.answers;
    seen.predicted_ns += predicted * news.answers;
    seen.took_ns += news.latency_ns;
    seen.missed_ns2 +=
        news.latency_ns2 - 2 * predicted * news.latency_ns + news.answers * predicted * predicted;
    Bin& bin = bins_[b];
    bin.Fade(std::exp(-news.answers / kMemory));
    bin.answers += news.answers;
    bin.backlog += news.backlog;
    bin.latency_ns += news.latency_ns;
    bin.latency_ns2 += news.latency_ns2;
  }
  return seen;
}

void LatencyCurve::Fit(double quickest_ns, double mean_ns) {
  double least = std::numeric_limits<double>::infinity(), most = 0, seen = 0;
  for (const Bin& bin : bins_) {
    seen += bin.answers;
    if (bin.answers < 2) continue;
    least = std::min(least, bin.Slots());
    most = std::max(most, bin.Slots());
  }
  if (seen < kMinAnswers || least > most) {
    base_ns_ = base_ns_ > 0 ? std::min(base_ns_, quickest_ns) : mean_ns;
    knee_ns_ = std::max(base_ns_, slot_ns_);
    return;
  }
  Means means;
  for (const Bin& bin : bins_) {
    if (bin.answers < 0.5) continue;
    const double scale = 1 / Square(bin.Slots() + 1);  // misses count in proportion to the queue
    means.at[means.count++] = {(bin.Slots() + 1) * slot_ns_, bin.Mean(), bin.answers * scale,
                               std::min(bin.answers, kMaxWeight) * scale};
  }
  double missed = std::numeric_limits<double>::infinity();
  const auto try_knee = [&](double slots) {
    const Line line = Through(means, slots * slot_ns_, quickest_ns);
    if (line.missed >= missed * kFitsAlike) return;
    missed = line.missed;
    base_ns_ = line.base_ns;
    knee_ns_ = slots * slot_ns_;
  };
  try_knee(least + 1);
  for (double knee : kKnees)
    if (knee < most + 1) try_knee(knee);
  if (most > least) try_knee(most + 1);
}

double LatencyCurve::Scatter() const {
  double answers = 0, squares = 0;
  for (const Bin& bin : bins_) {
    if (bin.answers < 2 || (bin.Slots() + 1) * slot_ns_ > knee_ns_ * 1.001) continue;
    answers += bin.answers;
    squares += std::max(0.0, bin.latency_ns2 - bin.answers * bin.Mean() * bin.Mean());
  }
  return answers > 0 ? std::sqrt(squares / answers) : 0;
}

}  // namespace spillway::agent

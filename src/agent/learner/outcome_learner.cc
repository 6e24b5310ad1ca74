// SPDX-License-Identifier: Apache-2.0
#include "agent/learner/outcome_learner.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace spillway::agent {
namespace {

constexpr double kMinAnswers = 8;    // fewer say nothing
constexpr double kMeanMemory = 512;  // answers
constexpr double kMemoryNs = 10e9;   // of what is not tried: longer explores less, shorter forgets sooner

constexpr double kQuickQuantile = 0.1, kQuickMemory = 2048;
constexpr double kScatterShare = 0.75;  // of a standard deviation on top of base
constexpr double kMaxScatter = 1;  // bases: a few answers that take fifty times as long are no reason to go
constexpr double kStood = 3;       // latencies that long say how long a unit stands still
// Longer, and its requests are of the kind that waits on purpose, or the unit is dead
// (agent/failure_detector.h).
constexpr std::chrono::milliseconds kMaxStandstill{100};
constexpr double kRefit = 16;                   // answers between two fits
constexpr std::chrono::seconds kRefitAfter{1};  // without so many: what is not tried fades, too

uint32_t Micros(double ns) {
  return static_cast<uint32_t>(std::clamp(ns / 1000, 1.0, double{std::numeric_limits<uint32_t>::max()}));
}

}  // namespace

void OutcomeLearner::Look(Time now, uint32_t queue, const spw_meter_counts& totals, double cpus,
                          spw_meter_clocks& clocks, const Rationed& rationed) {
  if (!last_ || totals.completed < last_->completed || totals.timed < last_->timed) {
    last_ = totals;
    at_ = stands_since_ = now;
    return;
  }
  if (now <= at_) return;  // the next look sees both
  const bool unqueued = std::max(queue, queue_) <= std::max(workers_, 1u);
  NoteProgress(now, queue, totals);
  const auto elapsed_ns = static_cast<double>((now - at_).count());
  const double keep = std::exp(-elapsed_ns / kMemoryNs);
  tail_.Learn(*last_, totals, elapsed_ns, queue, clocks_.curve().slot_ns());
  if (totals.timed > last_->timed) {
    LearnLatencies(totals, static_cast<double>(totals.timed - last_->timed), unqueued);
    if (clocks_.Learn(*last_, totals)) {
      latencies_.Fade(BacklogClocks::kKeptOfOverload);
      fresh_ = kRefit;
    }
  }
  pace_.Learn(now, *last_, totals, cpus, keep);
  clocks_.Fade(keep);
  last_ = totals;
  at_ = now;
  if (answers_ < kMinAnswers) return;
  Correct(now, queue, clocks);
  Tell(now, clocks, rationed);
}

void OutcomeLearner::NoteProgress(Time now, uint32_t queue, const spw_meter_counts& totals) {
  const bool answers = totals.completed != last_->completed;
  if (answers || queue == 0 || queue_ == 0) {
    stands_since_ = now;
    arrived_ = answers ? totals.arrivals : last_->arrivals;
  } else if (totals.arrivals < arrived_ + (workers_ > 1 ? 2 : 1)) {
    // All that is in the unit was there when it answered others last: a long poll, say. Of several workers
    // one may be busy with a long request while the others are free.
    stands_since_ = now;
  }
  queue_ = queue;
}

void OutcomeLearner::LearnLatencies(const spw_meter_counts& totals, double timed, bool unqueued) {
  const double mean = static_cast<double>(totals.latency_sum_ns - last_->latency_sum_ns) / timed;
  answers_ += timed;
  fresh_ += timed;
  mean_ns_ += (mean - mean_ns_) * std::min(1.0, timed / std::min(answers_, kMeanMemory));
  const double keep = std::exp(-timed / kQuickMemory);
  latencies_.Fade(keep);
  latencies_.Add(*last_, totals);
  if (!unqueued) return;
  unqueued_.Fade(keep);
  unqueued_.Add(*last_, totals);
}

// A unit that leaves the requests that are in it alone, for longer than nearly all take, goes on so for as
// long as its latencies of such length went on: a garbage collector, a neighbour, a quota that is used up.
double OutcomeLearner::StandstillNs(Time now) const {
  const Time stood = now - stands_since_;
  if (stood <= std::chrono::microseconds(learnt_.tail_us) || stood > kMaxStandstill) return 0;
  return latencies_.MeanBeyond(static_cast<double>(stood.count()),
                               std::chrono::duration<double, std::nano>(kMaxStandstill).count(), kStood);
}

void OutcomeLearner::Correct(Time now, uint32_t queue, spw_meter_clocks& clocks) {
  const Pace::Slot pace = pace_.Now(mean_ns_ / std::max(workers_, 1u));
  const bool fit = fresh_ >= kRefit || !clocks_.fitted() || now - fitted_ >= kRefitAfter;
  learnt_.slot_guessed = pace.guessed;
  clocks_.Set(now, queue, pace.ns, std::max(pace.ns / 2, pace_.LongestSlotNs()), clocks);
  if (fit) {
    fitted_ = now;
    fresh_ = 0;
    clocks_.Fit((unqueued_.count() > 0 ? unqueued_ : latencies_).Quantile(kQuickQuantile), mean_ns_);
    learnt_.tail_us = Micros(tail_.Ns());
  }
  clocks_.Choose();
}

void OutcomeLearner::Tell(Time now, const spw_meter_clocks& clocks, const Rationed& rationed) {
  const LatencyCurve& curve = clocks_.curve();
  const double slot = std::max(curve.slot_ns(), rationed.slot_ns), longer = slot - curve.slot_ns();
  const double scatter = std::min(kScatterShare * curve.Scatter(), kMaxScatter * curve.base_ns());
  learnt_.base_us = Micros(curve.base_ns() + scatter);
  learnt_.price_us = static_cast<uint32_t>(std::min(rationed.price_ns / 1000, 4e9));
  learnt_.slot_ns = static_cast<uint32_t>(std::min(slot, 4e9));
  // The slot may have grown since the curve was fitted: who finds nobody waits for nobody.
  learnt_.knee_us = Micros(std::max(curve.knee_ns(), curve.slot_ns()) + longer);
  // The clocks are what outcomes are set against, so a standstill is not counted in them.
  const double stands_ns = std::max(StandstillNs(now), rationed.refill_ns);
  const double backlog_us = (clocks_.BacklogNs(now, clocks) + stands_ns) / 1000;
  learnt_.backlog_us =
      static_cast<uint32_t>(std::clamp(backlog_us, 0.0, double{std::numeric_limits<uint32_t>::max()}));
}

}  // namespace spillway::agent

// SPDX-License-Identifier: Apache-2.0
#include "agent/learner/outcome_learner.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

namespace spillway::agent {
namespace {

constexpr double kLongestSlot = 64;  // times the pace: a unit with 2 % of a CPU

constexpr double kMinAnswers = 8;      // fewer say nothing
constexpr double kMeanMemory = 512;    // answers
constexpr double kMemoryNs = 10e9;     // of what is not tried: longer explores less, shorter forgets sooner
constexpr double kErrorMemory = 1000;  // answers: decides which clock is best
// Of the mean square error: closer, and clocks would take turns by chance.
constexpr double kBetterClock = 0.9;
constexpr double kApart = 1.05;  // of slots: closer, and the throughput bounds both
constexpr double kJudged = 100;  // answers before another clock may be chosen
// In parts of a quick request: clocks whose curves miss by less than that predict alike.
constexpr double kAlike = 0.5;
// Answers in which a faster clock that predicts as well takes over: half as many, and units that often, but
// not always, wait for their quota would lose the clock that knows it.
constexpr double kSlowerProves = 1536;

// By how many answers an overload is judged to be over that were so many times quicker than predicted, which
// chance hardly makes of so many, and what is kept of what was learnt in it. The other way, a stall would
// look like a change.
struct Quicker {
  double answers, times;
};
constexpr std::array<Quicker, 2> kOverloadIsOver = {{{48, 3}, {768, 1.4}}};
constexpr double kKeptOfOverload = 1.0 / 32;

constexpr double kQuickQuantile = 0.1, kQuickMemory = 2048;
constexpr double kScatterShare = 0.75;  // of a standard deviation on top of base
constexpr double kMaxScatter = 1;  // bases: a few answers that take fifty times as long are no reason to go
constexpr double kStood = 3;       // latencies that long say how long a unit stands still
// Longer, and its requests are of the kind that waits on purpose, or the unit is dead
// (agent/failure_detector.h).
constexpr std::chrono::milliseconds kMaxStandstill{100};
// Slots of backlog that a unit without requests may have. By a clock at the pace itself it is soon done with:
// a unit that was never full, with several workers or a latency that nobody is busy for, is taken to be
// slower than it is, and by debts would seem to be full as well.
constexpr double kMaxDebt = 32, kMaxPaceDebt = 4;

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
  tail_.Learn(*last_, totals, elapsed_ns, queue, clocks_[best_].curve.slot_ns());
  if (totals.timed > last_->timed) {
    LearnLatencies(totals, static_cast<double>(totals.timed - last_->timed), unqueued);
    LearnOutcomes(totals);
  }
  pace_.Learn(now, *last_, totals, cpus, keep);
  for (Clock& clock : clocks_) clock.curve.Fade(keep);
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

void OutcomeLearner::LearnOutcomes(const spw_meter_counts& totals) {
  const bool fitted =
      std::all_of(clocks_.begin(), clocks_.end(), [](const Clock& clock) { return clock.curve.fitted(); });
  LatencyCurve::Seen best;
  for (size_t c = 0; c < clocks_.size(); c++) {
    Clock& clock = clocks_[c];
    const LatencyCurve::Seen seen = clock.curve.Learn(last_->outcome[c], totals.outcome[c]);
    if (c == best_ && clock.curve.fitted()) best = seen;
    if (!fitted || seen.answers <= 0) continue;
    clock.error += (seen.missed_ns2 / seen.answers - clock.error) *
                   std::min(1.0, seen.answers / std::min(judged_ + seen.answers, kErrorMemory));
    clock.missed_ns2 += seen.missed_ns2;
  }
  if (fitted) judged_ += best.answers;
  PreferFasterClock(fitted ? best.answers : 0);
  ForgetOverload(best);
}

// A clock that is slow without need sees a backlog where none is, so that a few requests of a unit half idle
// are sent elsewhere. What made it best may be an overload long ago, whose errors outweigh those of now.
void OutcomeLearner::PreferFasterClock(double answers) {
  compared_ += answers;
  if (compared_ < kSlowerProves) return;
  const double enough = std::max(clocks_[best_].missed_ns2, AlikeNs2() * compared_);
  size_t fastest = 0;
  while (clocks_[fastest].missed_ns2 > enough) fastest++;
  if (fastest < best_) {
    best_ = fastest;
    for (Clock& clock : clocks_) clock.error = clock.missed_ns2 / compared_;
  }
  CompareAnew();
}

// Mean square of what a clock's curve may miss latencies by without being worse than one that misses less.
double OutcomeLearner::AlikeNs2() const { return kAlike * kAlike * quickest_ns_ * quickest_ns_; }

void OutcomeLearner::CompareAnew() {
  compared_ = 0;
  for (Clock& clock : clocks_) clock.missed_ns2 = 0;
}

void OutcomeLearner::ForgetOverload(const LatencyCurve::Seen& best) {
  bool over = false;
  for (size_t i = 0; i < kOverloadIsOver.size(); i++) {
    LatencyCurve::Seen& lately = lately_[i];
    lately.answers += best.answers;
    lately.predicted_ns += best.predicted_ns;
    lately.took_ns += best.took_ns;
    if (lately.answers < kOverloadIsOver[i].answers) continue;
    over = over || lately.took_ns * kOverloadIsOver[i].times < lately.predicted_ns;
    lately = {};
  }
  if (!over) return;
  lately_ = {};
  for (Clock& clock : clocks_) {
    clock.curve.Fade(kKeptOfOverload);
    clock.error = 0;
  }
  latencies_.Fade(kKeptOfOverload);
  judged_ = 0;
  CompareAnew();
  fresh_ = kRefit;
}

// Moves the clocks by one where the best is the first or the last of them, so that the next is tried.
// Requests under way keep their marks of the old order: a handful of answers is counted under the wrong
// clock.
void OutcomeLearner::MoveClocks(spw_meter_clocks& clocks) {
  constexpr size_t kLast = SPW_METER_CLOCKS - 1;
  const bool apart = clocks_[1].curve.slot_ns() > clocks_[0].curve.slot_ns(),
             slower = best_ == kLast && apart && first_ * (2 << kLast) <= kLongestSlot,
             faster = first_ > 1 && (best_ == 0 || !apart);
  if (judged_ < kJudged || !(slower || faster)) return;
  Clock fresh;  // what it says is scaled to its own slot by the caller
  if (slower) {
    fresh.curve.set_slot_ns(clocks_[kLast].curve.slot_ns());
    std::shift_left(clocks_.begin(), clocks_.end(), 1);
    std::shift_left(std::begin(clocks.drained_ns), std::end(clocks.drained_ns), 1);
    clocks_[kLast] = fresh;
    clocks.drained_ns[kLast] = clocks.drained_ns[kLast - 1];
    best_--;
  } else {
    fresh.curve.set_slot_ns(clocks_[0].curve.slot_ns());
    std::shift_right(clocks_.begin(), clocks_.end(), 1);
    std::shift_right(std::begin(clocks.drained_ns), std::end(clocks.drained_ns), 1);
    clocks_[0] = fresh;
    clocks.drained_ns[0] = clocks.drained_ns[1];
    best_ = std::min(best_ + 1, kLast);
  }
  first_ = slower ? first_ * 2 : first_ / 2;
  judged_ = 0;
  CompareAnew();
}

// The pace that was learnt has changed, because a queue was seen for the first time, say: what that tells of
// the long run is less than what the outcomes told, so the clocks' slots stay as they are to a factor of 1.4.
void OutcomeLearner::FollowPace(double pace_ns) {
  const double slot = clocks_[0].curve.slot_ns();
  if (slot <= 0 || pace_ns == followed_ns_) return;
  followed_ns_ = pace_ns;
  while (first_ > 1 && pace_ns * first_ > slot * std::numbers::sqrt2) first_ /= 2;
  while (first_ < kLongestSlot / 4 && pace_ns * first_ * std::numbers::sqrt2 < slot) first_ *= 2;
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
  const auto now_ns = static_cast<double>(now.count());
  const Pace::Slot pace = pace_.Now(mean_ns_ / std::max(workers_, 1u));
  const double longest = std::max(pace.ns / 2, pace_.LongestSlotNs());
  const bool fit = fresh_ >= kRefit || !clocks_[0].curve.fitted() || now - fitted_ >= kRefitAfter;
  if (fit) {
    fitted_ = now;
    fresh_ = 0;
    quickest_ns_ = (unqueued_.count() > 0 ? unqueued_ : latencies_).Quantile(kQuickQuantile);
    learnt_.tail_us = Micros(tail_.Ns());
  }
  learnt_.slot_guessed = pace.guessed;
  FollowPace(pace.ns);
  MoveClocks(clocks);
  for (size_t c = 0; c < clocks_.size(); c++) {
    Clock& clock = clocks_[c];
    const double slot = std::clamp(std::min(pace.ns * (first_ << c), longest), 1.0, 4e9);
    const double before = clock.curve.slot_ns();
    const auto drained = static_cast<double>(__atomic_load_n(&clocks.drained_ns[c], __ATOMIC_RELAXED));
    clock.curve.set_slot_ns(slot);
    // The backlog stays as many slots; a request in the unit is a slot of work, whatever a clock says that
    // drained while the unit stood still.
    double backlog = std::max(drained - now_ns, 0.0);
    if (before > 0) backlog *= slot / before;
    const double debt = c == 0 && first_ == 1 ? kMaxPaceDebt : kMaxDebt;
    backlog = std::clamp(backlog, queue * slot, (queue + debt) * slot);
    __atomic_store_n(&clocks.drained_ns[c], static_cast<__u64>(now_ns + backlog), __ATOMIC_RELAXED);
    __atomic_store_n(&clocks.slot_ns[c], static_cast<__u32>(slot), __ATOMIC_RELAXED);
    if (fit) clock.curve.Fit(quickest_ns_, mean_ns_);
    if (judged_ >= kJudged &&
        std::max(clock.error, AlikeNs2()) < kBetterClock * std::max(clocks_[best_].error, AlikeNs2()))
      best_ = c;
  }
  while (best_ > 0 && clocks_[best_].curve.slot_ns() < kApart * clocks_[best_ - 1].curve.slot_ns()) best_--;
}

void OutcomeLearner::Tell(Time now, const spw_meter_clocks& clocks, const Rationed& rationed) {
  const LatencyCurve& curve = clocks_[best_].curve;
  const double slot = std::max(curve.slot_ns(), rationed.slot_ns), longer = slot - curve.slot_ns();
  const double scatter = std::min(kScatterShare * curve.Scatter(), kMaxScatter * curve.base_ns());
  learnt_.base_us = Micros(curve.base_ns() + scatter);
  learnt_.price_us = static_cast<uint32_t>(std::min(rationed.price_ns / 1000, 4e9));
  learnt_.slot_ns = static_cast<uint32_t>(std::min(slot, 4e9));
  // The slot may have grown since the curve was fitted: who finds nobody waits for nobody.
  learnt_.knee_us = Micros(std::max(curve.knee_ns(), curve.slot_ns()) + longer);
  // The clocks are what outcomes are set against, so a standstill is not counted in them.
  const double stands_ns = std::max(StandstillNs(now), rationed.refill_ns);
  const double backlog_us =
      (static_cast<double>(clocks.drained_ns[best_]) - static_cast<double>(now.count()) + stands_ns) / 1000;
  learnt_.backlog_us =
      static_cast<uint32_t>(std::clamp(backlog_us, 0.0, double{std::numeric_limits<uint32_t>::max()}));
}

}  // namespace spillway::agent

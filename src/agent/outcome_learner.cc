// SPDX-License-Identifier: Apache-2.0
#include "agent/outcome_learner.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "bpf/meter_backlog.h"

namespace spillway::agent {
namespace {

constexpr double kLongestSlot = 64;  // times the pace: a unit with 2 % of a CPU

constexpr double kMinAnswers = 8;      // fewer say nothing
constexpr double kCurveMemory = 1500;  // answers of a bin: fewer are noise where services vary as their mean
constexpr double kMemoryNs = 10e9;     // of what is not tried: longer explores less, shorter forgets sooner
constexpr double kErrorMemory = 1000;  // answers: decides which clock is best
constexpr double kBetterClock =
    0.9;                         // of the mean square error: closer, and clocks would take turns by chance
constexpr double kJudged = 100;  // answers before another clock may be chosen

constexpr double kPaceAnswers = 100;  // enough to know a pace by
constexpr double kPaceMemory = 512;
// Answers of all bins after which a bin's own are old: else backlogs that do not come any more would go on
// telling the pace of a unit that has become slower.
constexpr double kPaceForgotten = 2048;

// A slot is at most kBelowPeak / the answers a second over the best window: where a clock is slow without
// reason it would see overload, spread requests by it, and so never learn better.
constexpr double kBelowPeak = 0.9;
constexpr double kWindowAnswers = 64;
constexpr std::chrono::milliseconds kWindow{100};  // longer than most quotas' periods

// Answers by which an overload is judged to be over, the factor that chance hardly reaches with so many, and
// what is kept of what was learnt in it. The other way, a stall would look like a change.
constexpr double kChangeAnswers = 48, kChanged = 2, kKeptAfterChange = 1.0 / 32;

constexpr double kQuickQuantile = 0.1, kQuickMemory = 2048;
// Short, so that waits of an overload are not held against the unit for long after it.
constexpr double kTailQuantile = 0.98, kTailMemory = 384;
constexpr double kQuickWeight = 4;     // answers: the price of trying a unit again
constexpr double kScatterShare = 0.5;  // of a standard deviation on top of base
constexpr double kMaxDebt = 32;        // slots of backlog that a unit without requests may have

constexpr double kRefit = 16;                   // answers between two fits
constexpr std::chrono::seconds kRefitAfter{1};  // without so many: what is not tried fades, too

double Ns(uint64_t steps) { return static_cast<double>(steps) * (1 << SPW_METER_STEP_SHIFT); }

uint32_t Micros(double ns) {
  return static_cast<uint32_t>(std::clamp(ns / 1000, 1.0, double{std::numeric_limits<uint32_t>::max()}));
}

}  // namespace

void OutcomeLearner::Bin::Fade(double keep) {
  answers *= keep;
  backlog *= keep;
  latency_ns *= keep;
  latency_ns2 *= keep;
}

double OutcomeLearner::Clock::Predict(double backlog_slots) const {
  return base_ns + std::max(0.0, (backlog_slots + 1) * slot_ns - knee_ns);
}

void OutcomeLearner::Look(Time now, uint32_t queue, const spw_meter_counts& totals, double cpus,
                          spw_meter_clocks& clocks) {
  if (!last_ || totals.completed < last_->completed || totals.timed < last_->timed) {
    last_ = totals;
    at_ = now;
    return;
  }
  if (now <= at_) return;  // the next look sees both
  const double timed = static_cast<double>(totals.timed - last_->timed);
  if (timed > 0) {
    const double mean = static_cast<double>(totals.latency_sum_ns - last_->latency_sum_ns) / timed;
    answers_ += timed;
    fresh_ += timed;
    mean_ns_ += (mean - mean_ns_) * std::min(1.0, timed / std::min(answers_, kPaceMemory));
    latencies_.Fade(std::exp(-timed / kQuickMemory));
    latencies_.Add(*last_, totals);
    recent_.Fade(std::exp(-timed / kTailMemory));
    recent_.Add(*last_, totals);
    LearnPace(totals, cpus);
    LearnOutcomes(totals);
  }
  const double keep = std::exp(-static_cast<double>((now - at_).count()) / kMemoryNs);
  for (Clock& clock : clocks_)
    for (Bin& bin : clock.bins) bin.Fade(keep);
  peak_per_ns_ *= keep;
  LearnThroughput(now, static_cast<double>(totals.completed - last_->completed));
  last_ = totals;
  at_ = now;
  if (answers_ >= kMinAnswers) Correct(now, queue, clocks);
}

void OutcomeLearner::LearnPace(const spw_meter_counts& totals, double cpus) {
  const double old = std::exp(-static_cast<double>(totals.timed - last_->timed) / kPaceForgotten);
  for (Pace& pace : pace_) {
    pace.answers *= old;
    pace.busy_ns *= old;
  }
  for (size_t b = 0; b < pace_.size(); b++) {
    const double answers = static_cast<double>(totals.pace[b].answers - last_->pace[b].answers);
    if (answers <= 0) continue;
    const double keep = std::exp(-answers / kPaceMemory);
    pace_[b].answers = pace_[b].answers * keep + answers;
    // Each CPU counts its own answers only.
    pace_[b].busy_ns =
        pace_[b].busy_ns * keep + Ns(totals.pace[b].busy_steps - last_->pace[b].busy_steps) / cpus;
  }
}

void OutcomeLearner::LearnThroughput(Time now, double answers) {
  if (window_began_.count() == 0) window_began_ = now;
  window_answers_ += answers;
  if (window_answers_ < kWindowAnswers || now - window_began_ < kWindow) return;
  peak_per_ns_ = std::max(peak_per_ns_, window_answers_ / static_cast<double>((now - window_began_).count()));
  window_answers_ = 0;
  window_began_ = now;
}

void OutcomeLearner::LearnOutcomes(const spw_meter_counts& totals) {
  double judged = 0;
  for (size_t c = 0; c < clocks_.size(); c++) {
    Clock& clock = clocks_[c];
    double missed = 0;
    judged = 0;
    for (size_t b = 0; b < SPW_METER_BINS; b++) {
      const spw_meter_outcome &after = totals.outcome[c][b], &before = last_->outcome[c][b];
      Bin seen;
      seen.answers = static_cast<double>(after.answers - before.answers);
      if (seen.answers <= 0) continue;
      seen.backlog = static_cast<double>(after.backlog - before.backlog) / SPW_METER_SLOT_FRACTION;
      seen.latency_ns = Ns(after.latency_steps - before.latency_steps);
      seen.latency_ns2 = Ns(after.latency_steps2 - before.latency_steps2) * (1 << SPW_METER_STEP_SHIFT);
      const double predicted = clock.Predict(seen.Slots());
      if (c == best_ && clock.base_ns > 0) {
        foretold_answers_ += seen.answers;
        foretold_ns_ += predicted * seen.answers;
        took_ns_ += seen.latency_ns;
      }
      missed += seen.latency_ns2 - 2 * predicted * seen.latency_ns + seen.answers * predicted * predicted;
      judged += seen.answers;
      Bin& bin = clock.bins[b];
      bin.Fade(std::exp(-seen.answers / kCurveMemory));
      bin.answers += seen.answers;
      bin.backlog += seen.backlog;
      bin.latency_ns += seen.latency_ns;
      bin.latency_ns2 += seen.latency_ns2;
    }
    if (Fitted() && judged > 0)
      clock.error +=
          (missed / judged - clock.error) * std::min(1.0, judged / std::min(judged_ + judged, kErrorMemory));
  }
  if (Fitted()) judged_ += judged;
  ForgetOverload();
}

void OutcomeLearner::ForgetOverload() {
  if (foretold_answers_ < kChangeAnswers) return;
  if (took_ns_ * kChanged < foretold_ns_) {
    for (Clock& clock : clocks_)
      for (Bin& bin : clock.bins) bin.Fade(kKeptAfterChange);
    fresh_ = kRefit;
  }
  foretold_answers_ = foretold_ns_ = took_ns_ = 0;
}

bool OutcomeLearner::Fitted() const {
  return std::all_of(clocks_.begin(), clocks_.end(), [](const Clock& clock) { return clock.base_ns > 0; });
}

// From the longest backlogs down, until the answers are enough.
double OutcomeLearner::PaceNs(bool& guessed) const {
  const double alone = mean_ns_ / std::max(workers_, 1u);
  double answers = 0, busy_ns = 0;
  for (size_t b = pace_.size(); b-- > 0 && answers < kPaceAnswers;) {
    answers += pace_[b].answers;
    busy_ns += pace_[b].busy_ns;
  }
  guessed = answers < kPaceAnswers;
  if (!guessed) return std::max(busy_ns / answers, 1.0);
  return std::max(std::min(alone, (busy_ns + alone * kMinAnswers) / (answers + kMinAnswers)), 1.0);
}

void OutcomeLearner::Fit(Clock& clock) const {
  // Knees tried, in slots: the ends of what was seen, and these between.
  constexpr std::array<double, 14> kKnees = {1, 1.5, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 128};
  double least = std::numeric_limits<double>::infinity(), most = 0, seen = 0;
  for (const Bin& bin : clock.bins) {
    seen += bin.answers;
    if (bin.answers < 2) continue;
    least = std::min(least, bin.Slots());
    most = std::max(most, bin.Slots());
  }
  if (seen < kMinAnswers || least > most) {
    clock.base_ns = clock.base_ns > 0 ? std::min(clock.base_ns, quickest_ns_) : mean_ns_;
    clock.knee_ns = std::max(clock.base_ns, clock.slot_ns);
    return;
  }
  double best = std::numeric_limits<double>::infinity();
  const auto attempt = [&](double knee_slots) {
    const double knee = knee_slots * clock.slot_ns;
    const auto wait = [&](const Bin& bin) { return std::max(0.0, (bin.Slots() + 1) * clock.slot_ns - knee); };
    double weight = kQuickWeight, sum = kQuickWeight * quickest_ns_, missed = 0;
    for (const Bin& bin : clock.bins) {
      if (bin.answers < 0.5) continue;
      weight += bin.answers;
      sum += bin.answers * (bin.Mean() - wait(bin));
    }
    const double base = std::max(sum / weight, 1.0);
    for (const Bin& bin : clock.bins) {
      if (bin.answers < 0.5) continue;
      const double off = bin.Mean() - base - wait(bin);
      // A hundred answers are as sure as thousands: else the usual backlog alone would be fitted.
      missed += std::min(bin.answers, 100.0) * off * off;
    }
    if (missed >= best * 0.98) return;  // of knees that fit alike the lowest: sooner careful
    best = missed;
    clock.base_ns = base;
    clock.knee_ns = knee;
  };
  attempt(least + 1);
  for (double knee : kKnees)
    if (knee > least + 1 && knee < most + 1) attempt(knee);
  if (most > least) attempt(most + 1);
}

// Standard deviation of the latencies below the knee.
double OutcomeLearner::Scatter(const Clock& clock) const {
  double answers = 0, squares = 0;
  for (const Bin& bin : clock.bins) {
    if (bin.answers < 2 || (bin.Slots() + 1) * clock.slot_ns > clock.knee_ns * 1.001) continue;
    answers += bin.answers;
    squares += std::max(0.0, bin.latency_ns2 - bin.answers * bin.Mean() * bin.Mean());
  }
  return answers > 0 ? std::sqrt(squares / answers) : 0;
}

// Moves the clocks by one where the best is the first or the last of them, so that the next is tried.
// Requests under way keep their marks of the old order: a handful of answers is counted under the wrong
// clock.
void OutcomeLearner::MoveClocks(spw_meter_clocks& clocks) {
  constexpr size_t kLast = SPW_METER_CLOCKS - 1;
  const bool slower = best_ == kLast && first_ * (2 << kLast) <= kLongestSlot,
             faster = best_ == 0 && first_ > 1;
  if (judged_ < kJudged || !(slower || faster)) return;
  Clock fresh;  // what it says is scaled to its own slot by the caller
  if (slower) {
    fresh.slot_ns = clocks_[kLast].slot_ns;
    std::shift_left(clocks_.begin(), clocks_.end(), 1);
    std::shift_left(std::begin(clocks.drained_ns), std::end(clocks.drained_ns), 1);
    clocks_[kLast] = fresh;
    clocks.drained_ns[kLast] = clocks.drained_ns[kLast - 1];
    best_--;
  } else {
    fresh.slot_ns = clocks_[0].slot_ns;
    std::shift_right(clocks_.begin(), clocks_.end(), 1);
    std::shift_right(std::begin(clocks.drained_ns), std::end(clocks.drained_ns), 1);
    clocks_[0] = fresh;
    clocks.drained_ns[0] = clocks.drained_ns[1];
    best_++;
  }
  first_ = slower ? first_ * 2 : first_ / 2;
  judged_ = 0;
}

void OutcomeLearner::Correct(Time now, uint32_t queue, spw_meter_clocks& clocks) {
  const auto now_ns = static_cast<double>(now.count());
  const double pace = PaceNs(learnt_.slot_guessed);
  const double longest = peak_per_ns_ > 0 ? std::max(pace / 2, kBelowPeak / peak_per_ns_)
                                          : std::numeric_limits<double>::infinity();
  const bool fit = fresh_ >= kRefit || clocks_[0].base_ns == 0 || now - fitted_ >= kRefitAfter;
  if (fit) {
    fitted_ = now;
    fresh_ = 0;
    quickest_ns_ = latencies_.Quantile(kQuickQuantile);
    learnt_.tail_us = Micros(recent_.Quantile(kTailQuantile));
  }
  MoveClocks(clocks);
  for (size_t c = 0; c < clocks_.size(); c++) {
    Clock& clock = clocks_[c];
    const double slot = std::clamp(std::min(pace * (first_ << c), longest), 1.0, 4e9), before = clock.slot_ns;
    const auto drained = static_cast<double>(__atomic_load_n(&clocks.drained_ns[c], __ATOMIC_RELAXED));
    clock.slot_ns = slot;
    // The backlog stays as many slots; a request in the unit is a slot of work, whatever a clock says that
    // drained while the unit stood still.
    double backlog = std::max(drained - now_ns, 0.0);
    if (before > 0) backlog *= slot / before;
    backlog = std::clamp(backlog, queue * slot, (queue + kMaxDebt) * slot);
    __atomic_store_n(&clocks.drained_ns[c], static_cast<__u64>(now_ns + backlog), __ATOMIC_RELAXED);
    __atomic_store_n(&clocks.slot_ns[c], static_cast<__u32>(slot), __ATOMIC_RELAXED);
    if (fit) Fit(clock);
    if (judged_ >= kJudged && clock.error < kBetterClock * clocks_[best_].error) best_ = c;
  }
  const Clock& clock = clocks_[best_];
  learnt_.base_us = Micros(clock.base_ns + kScatterShare * Scatter(clock));
  learnt_.slot_ns = static_cast<uint32_t>(clock.slot_ns);
  learnt_.knee_us = Micros(clock.knee_ns);
  learnt_.backlog_us =
      static_cast<uint32_t>(std::max(static_cast<double>(clocks.drained_ns[best_]) - now_ns, 0.0) / 1000);
}

}  // namespace spillway::agent

// SPDX-License-Identifier: Apache-2.0
#include "agent/learner/backlog_clocks.h"

#include <algorithm>
#include <iterator>
#include <numbers>

namespace spillway::agent {
namespace {

constexpr double kLongestSlot = 64;    // times the pace: a unit with 2 % of a CPU
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
// chance hardly makes of so many. The other way, a stall would look like a change.
struct Quicker {
  double answers, times;
};
constexpr std::array<Quicker, 2> kOverloadIsOver = {{{48, 3}, {768, 1.4}}};

// Slots of backlog that a unit without requests may have. By a clock at the pace itself it is soon done with:
// a unit that was never full, with several workers or a latency that nobody is busy for, is taken to be
// slower than it is, and by debts would seem to be full as well.
constexpr double kMaxDebt = 32, kMaxPaceDebt = 4;

}  // namespace

bool BacklogClocks::Learn(const spw_meter_counts& last, const spw_meter_counts& totals) {
  const bool fitted =
      std::all_of(clocks_.begin(), clocks_.end(), [](const Clock& clock) { return clock.curve.fitted(); });
  LatencyCurve::Seen best;
  for (size_t c = 0; c < clocks_.size(); c++) {
    Clock& clock = clocks_[c];
    const LatencyCurve::Seen seen = clock.curve.Learn(last.outcome[c], totals.outcome[c]);
    if (c == best_ && clock.curve.fitted()) best = seen;
    if (!fitted || seen.answers <= 0) continue;
    clock.error += (seen.missed_ns2 / seen.answers - clock.error) *
                   std::min(1.0, seen.answers / std::min(judged_ + seen.answers, kErrorMemory));
    clock.missed_ns2 += seen.missed_ns2;
  }
  if (fitted) judged_ += best.answers;
  PreferFaster(fitted ? best.answers : 0);
  return ForgetOverload(best);
}

void BacklogClocks::Fade(double keep) {
  for (Clock& clock : clocks_) clock.curve.Fade(keep);
}

// A clock that is slow without need sees a backlog where none is, so that a few requests of a unit half idle
// are sent elsewhere. What made it best may be an overload long ago, whose errors outweigh those of now.
void BacklogClocks::PreferFaster(double answers) {
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
double BacklogClocks::AlikeNs2() const { return kAlike * kAlike * quickest_ns_ * quickest_ns_; }

void BacklogClocks::CompareAnew() {
  compared_ = 0;
  for (Clock& clock : clocks_) clock.missed_ns2 = 0;
}

bool BacklogClocks::ForgetOverload(const LatencyCurve::Seen& best) {
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
  if (!over) return false;
  lately_ = {};
  for (Clock& clock : clocks_) {
    clock.curve.Fade(kKeptOfOverload);
    clock.error = 0;
  }
  judged_ = 0;
  CompareAnew();
  return true;
}

// Moves the clocks by one where the best is the first or the last of them, so that the next is tried.
// Requests under way keep their marks of the old order: a handful of answers is counted under the wrong
// clock.
void BacklogClocks::Move(spw_meter_clocks& clocks) {
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
void BacklogClocks::FollowPace(double pace_ns) {
  const double slot = clocks_[0].curve.slot_ns();
  if (slot <= 0 || pace_ns == followed_ns_) return;
  followed_ns_ = pace_ns;
  while (first_ > 1 && pace_ns * first_ > slot * std::numbers::sqrt2) first_ /= 2;
  while (first_ < kLongestSlot / 4 && pace_ns * first_ * std::numbers::sqrt2 < slot) first_ *= 2;
}

void BacklogClocks::Set(std::chrono::nanoseconds now, uint32_t queue, double pace_ns, double longest_ns,
                        spw_meter_clocks& clocks) {
  const auto now_ns = static_cast<double>(now.count());
  FollowPace(pace_ns);
  Move(clocks);
  for (size_t c = 0; c < clocks_.size(); c++) {
    LatencyCurve& curve = clocks_[c].curve;
    const double slot = std::clamp(std::min(pace_ns * (first_ << c), longest_ns), 1.0, 4e9);
    const double before = curve.slot_ns();
    const auto drained = static_cast<double>(__atomic_load_n(&clocks.drained_ns[c], __ATOMIC_RELAXED));
    curve.set_slot_ns(slot);
    // The backlog stays as many slots; a request in the unit is a slot of work, whatever a clock says that
    // drained while the unit stood still.
    double backlog = std::max(drained - now_ns, 0.0);
    if (before > 0) backlog *= slot / before;
    const double debt = c == 0 && first_ == 1 ? kMaxPaceDebt : kMaxDebt;
    backlog = std::clamp(backlog, queue * slot, (queue + debt) * slot);
    __atomic_store_n(&clocks.drained_ns[c], static_cast<__u64>(now_ns + backlog), __ATOMIC_RELAXED);
    __atomic_store_n(&clocks.slot_ns[c], static_cast<__u32>(slot), __ATOMIC_RELAXED);
  }
}

void BacklogClocks::Fit(double quickest_ns, double mean_ns) {
  quickest_ns_ = quickest_ns;
  for (Clock& clock : clocks_) clock.curve.Fit(quickest_ns, mean_ns);
}

void BacklogClocks::Choose() {
  for (size_t c = 0; c < clocks_.size() && judged_ >= kJudged; c++)
    if (std::max(clocks_[c].error, AlikeNs2()) < kBetterClock * std::max(clocks_[best_].error, AlikeNs2()))
      best_ = c;
  while (best_ > 0 && clocks_[best_].curve.slot_ns() < kApart * clocks_[best_ - 1].curve.slot_ns()) best_--;
}

}  // namespace spillway::agent

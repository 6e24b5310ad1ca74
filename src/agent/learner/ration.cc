// SPDX-License-Identifier: Apache-2.0
#include "agent/learner/ration.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace spillway::agent {
namespace {

// That a quota must be worth: in shorter periods fewer are used up, or given anew, before the switch can
// know.
constexpr double kFewestRequests = 8, kFewestInLongPeriods = 2;
constexpr double kLongPeriodNs = 10e6;
constexpr double kTold = 4;        // times a period that the switch must be told of changes
constexpr double kMaxStretch = 4;  // times the mean, period / quota: a budget all but used up has refill_ns
constexpr double kUsedUp = 1.0 / 50;  // of the quota: left by rounding, and by CPUs that keep a rest
// A kernel that looks each 10 ms lets a unit overrun its budget by so much; beyond, or a quota that is not
// enforced, say, would be believed for ever.
constexpr double kMostDebtNs = 10e6;
constexpr double kSilenceNs = 10e9;
constexpr double kCostMemoryNs =
    10e9;                            // what a unit does of its own in a quiet hour is not its requests' cost
constexpr double kCostMemory = 512;  // answers
constexpr double kMinAnswers = 8;    // to know a request's CPU time by
// Times what is answered: what comes but is never answered (rubbish, a flood) costs next to nothing, and more
// than that tells nothing of a unit that is overloaded.
constexpr double kMostAsked = 1.25;
constexpr double kMinCostNs = 100;        // what uses less is not worked on in this group
constexpr double kAskedMemoryNs = 200e6;  // two of Kubernetes' periods of 100 ms
// Requests are counted in windows of a part of a period; so many are enough to know how they scatter by, and
// are remembered.
constexpr double kWindow = 1.0 / 8, kMinWindows = 16, kMaxWindows = 64;
// Shares of all requests that are expected to come when the budget is used up. While they are few, a p99 does
// not show them, but it does show requests sent to a slower unit for their sake. Of hosts at 50 to 75 % of
// what all units can do, simulated with quotas of 1 in 5 to 20 in 100 ms, p99s were 9 % lower than without
// (and no longer twice the best at the load where throttling begins); with 1 and 3 % less, with 3 and 6 % up
// to 13 % higher where a period has few requests.
constexpr double kFewLate = 0.02, kManyLate = 0.04;
constexpr double kMinScatter = 0.1, kMaxScatter = 4;  // variance over mean: by few windows it may be anything
constexpr double kReadAgain = 1.0 / 32;               // of a period
constexpr double kKnownWithin = 1.0 / 2;              // of a period: its beginning

}  // namespace

void Ration::Learn(Time now, const QuotaReading& reading, uint64_t arrivals, uint64_t answers) {
  const auto now_ns = static_cast<double>(now.count());
  const bool anew = !last_ || reading.group != last_->group || reading.throttled < last_->throttled ||
                    reading.used_ns < last_->used_ns || reading.periods < last_->periods ||
                    answers < answers_ || arrivals < arrivals_ || reading.quota_ns != last_->quota_ns ||
                    reading.period_ns != last_->period_ns;
  if (anew) {
    *this = Ration(told_within_);
    left_ns_ = reading.quota_ns;
  } else {
    if (now_ns <= at_ns_) return;
    LearnBeginning(at_ns_, now_ns, reading);
    LearnRequests(now_ns - at_ns_, reading, arrivals, answers);
    Spend(at_ns_, now_ns, reading);
  }
  last_ = reading;
  at_ns_ = now_ns;
  arrivals_ = arrivals;
  answers_ = answers;
  Judge(now_ns, reading);
}

bool Ration::Due(Time now) const {
  if (!last_ || begins_within_ns_ == 0) return true;
  const auto now_ns = static_cast<double>(now.count());
  return now_ns - at_ns_ >= last_->period_ns * kReadAgain ||
         BeginningBefore(now_ns, last_->period_ns) > at_ns_;
}

void Ration::Pass(Time now) {
  const auto now_ns = static_cast<double>(now.count());
  if (last_ && now_ns > at_ns_) Judge(now_ns, *last_);
}

// The count has grown by one: a period began in between.
void Ration::LearnBeginning(double from_ns, double until_ns, const QuotaReading& reading) {
  const double period = reading.period_ns, within = until_ns - from_ns;
  if (reading.periods != last_->periods + 1 || within >= period * kKnownWithin) return;
  const double ahead = std::remainder(from_ns - begins_ns_, period);
  const double begins = std::max(ahead, 0.0), ends = std::min(ahead + within, begins_within_ns_);
  if (begins_within_ns_ == 0 || begins >= ends) {  // the first, or the timer was set anew
    begins_ns_ = from_ns;
    begins_within_ns_ = within;
  } else {
    begins_ns_ += begins;
    begins_within_ns_ = ends - begins;
  }
}

void Ration::LearnRequests(double elapsed_ns, const QuotaReading& reading, uint64_t arrivals,
                           uint64_t answers) {
  const auto arrived = static_cast<double>(arrivals - arrivals_),
             answered = static_cast<double>(answers - answers_);
  const double keep = std::exp(-answered / kCostMemory - elapsed_ns / kCostMemoryNs);
  costed_ = costed_ * keep + answered;
  cost_ns_ = cost_ns_ * keep + reading.used_ns - last_->used_ns;
  // At first over all that has been seen.
  const double faded = 1 - std::exp(-elapsed_ns / kAskedMemoryNs);
  asked_ns_ += (kAskedMemoryNs - asked_ns_) * faded;
  const double newer = kAskedMemoryNs * faded / asked_ns_;
  arrivals_per_ns_ += (arrived / elapsed_ns - arrivals_per_ns_) * newer;
  answers_per_ns_ += (answered / elapsed_ns - answers_per_ns_) * newer;
  LearnScatter(elapsed_ns, arrived, reading.period_ns * kWindow);
}

double Ration::AskedPerNs() const { return std::min(arrivals_per_ns_, kMostAsked * answers_per_ns_); }

void Ration::LearnScatter(double elapsed_ns, double arrived, double window_ns) {
  window_ns_ += elapsed_ns;
  window_requests_ += arrived;
  if (window_ns_ < window_ns) return;
  // Over longer than a window, where readings are rarer, less scatters: by that factor.
  const double longer = window_ns_ / window_ns, off = window_requests_ / longer - mean_;
  windows_ = std::min(windows_ + 1, kMaxWindows);
  // The mean follows the load faster, and is itself as far off as so few windows leave it.
  const double by = std::min(windows_, kMinWindows);
  if (windows_ > 1) variance_ += (off * off * longer * by / (by + 1) - variance_) / (windows_ - 1);
  mean_ += off / by;
  window_ns_ = window_requests_ = 0;
}

double Ration::BeginningBefore(double at_ns, double period_ns) const {
  const double begins = begins_ns_ + begins_within_ns_ / 2;
  return begins + std::floor((at_ns - begins) / period_ns) * period_ns;
}

void Ration::Spend(double from_ns, double until_ns, const QuotaReading& reading) {
  const double used = reading.used_ns - last_->used_ns, begins = BeginningBefore(until_ns, reading.period_ns);
  if (begins_within_ns_ == 0) return;
  if (begins <= from_ns) {
    left_ns_ -= used;
    return;
  }
  // Counted when the period ends, like its begin.
  if (-left_ns_ > std::max(reading.quota_ns / 2, kMostDebtNs) && reading.throttled == throttled_) {
    left_ns_ = 0;
    silent_until_ns_ = until_ns + kSilenceNs;
  }
  throttled_ = reading.throttled;
  const double share_before = (begins - from_ns) / (until_ns - from_ns);
  if (begins - from_ns > reading.period_ns) {  // several have begun
    left_ns_ = reading.quota_ns - used * (1 - share_before);
    return;
  }
  // Who had used up all of it used nothing more till then.
  const bool stood = left_ns_ <= kUsedUp * reading.quota_ns;
  const double before = stood ? 0 : std::min(used * share_before, left_ns_);
  const double debt = std::min(std::max(-left_ns_, 0.0), std::max(reading.quota_ns, kMostDebtNs));
  left_ns_ = reading.quota_ns - debt - (used - before);
}

void Ration::Judge(double now_ns, const QuotaReading& reading) {
  rationed_ = Rationed();
  if (begins_within_ns_ == 0 || now_ns < silent_until_ns_) return;
  const double quota = reading.quota_ns, period = reading.period_ns,
               to_end = BeginningBefore(now_ns, period) + period - now_ns;
  if (left_ns_ <= kUsedUp * quota) {
    rationed_.refill_ns = to_end;
    return;
  }
  const double cost = costed_ < kMinAnswers ? 0 : cost_ns_ / costed_;
  const double fewest = period < kLongPeriodNs ? kFewestRequests : kFewestInLongPeriods;
  const bool told = period >= kTold * static_cast<double>(told_within_.count());
  if (told && cost >= kMinCostNs && quota >= fewest * cost)
    JudgeRequests(left_ns_ / cost, quota / cost, to_end, period);
}

void Ration::JudgeRequests(double left, double of_quota, double to_end_ns, double period_ns) {
  const double asked = AskedPerNs();
  if (asked <= 0) return;
  const Beyond now = ExpectBeyond(asked * to_end_ns, left),
               usually = ExpectBeyond(asked * period_ns, of_quota);
  const double late = usually.requests / (asked * period_ns);
  const double counts = std::clamp((late - kFewLate) / (kManyLate - kFewLate), 0.0, 1.0);
  rationed_.price_ns = counts * std::min(now.requests / asked, to_end_ns);
  rationed_.slot_ns =
      now.probability * std::min(to_end_ns / std::max(left, 1.0), kMaxStretch * period_ns / of_quota);
}

// By a normal distribution of the requests to come.
Ration::Beyond Ration::ExpectBeyond(double mean, double limit) const {
  const double deviation = std::sqrt(mean * Scatter()), z = (limit - mean) / deviation;
  const double density = std::exp(-z * z / 2) / std::sqrt(2 * std::numbers::pi),
               above = std::erfc(z / std::numbers::sqrt2) / 2;
  return {above, deviation * std::max(density - z * above, 0.0)};
}

double Ration::Scatter() const {
  if (windows_ < kMinWindows || mean_ <= 0) return 1;  // as in a Poisson process
  return std::clamp(variance_ / mean_, kMinScatter, kMaxScatter);
}

}  // namespace spillway::agent

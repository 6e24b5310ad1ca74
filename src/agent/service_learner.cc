// SPDX-License-Identifier: Apache-2.0
#include "agent/service_learner.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace spillway::agent {
namespace {

constexpr double kMemory = 512;  // answers: longer is steadier, shorter quicker to see a change
constexpr double kFirst = 8;     // answers without which nothing is said
constexpr double kProven = 48;   // answers of full looks: about 3 % of error if services vary by a fifth
constexpr double kBatch = 16, kBatchNs = 1e9;  // answers judged together, or what came so soon

// A window much shorter than this could be quick by chance. Generations of windows make the bound
// forget.
constexpr double kWindow = 64;
constexpr uint32_t kGeneration = 32;
// Bounds are taken at chance's best: a rate that was seen counts only if it is better by a third.
constexpr double kBeyondChance = 0.75;
constexpr uint32_t kCrowdTimes = 8, kCrowdMemory = 32;

constexpr double kSurely = 1.5;    // times the answers usual between looks: more are not to be expected
constexpr double kLongestGap = 8;  // slots; longer without an answer, the unit is stuck
// Full for so many answers and so long, but for one look in ten: that is its nature.
constexpr double kForGood = 4096, kForGoodNs = 60e9, kNotFull = 10;
constexpr double kSlower = 1.12;  // less is noise
// While the slot is an upper bound, so is the share of requests that seem to wait.
constexpr double kUnqueuedAtLeast = 0.7, kUnqueuedAtLeastProven = 0.05;

double Blend(double a, double b, double part) { return a + (b - a) * std::clamp(part, 0.0, 1.0); }

}  // namespace

bool ServiceLearner::Proven() const { return full_rate_ns_.weight() >= kProven; }

double ServiceLearner::Workers() const { return std::max(unqueued_ns_ / slot_ns_, 1.0); }

void ServiceLearner::Look(Time now, uint32_t queue, const spw_meter_counts& totals) {
  if (!last_ || totals.completed < last_->totals.completed || totals.arrivals < last_->totals.arrivals ||
      totals.timed < last_->totals.timed) {
    last_ = State{now, queue, totals};
    return;
  }
  if (now <= last_->at) return;  // the next look tells both
  Span span;
  span.elapsed_ns = static_cast<double>((now - last_->at).count());
  span.answers = static_cast<double>(totals.completed - last_->totals.completed);
  span.arrivals = static_cast<double>(totals.arrivals - last_->totals.arrivals);
  span.queue_before = last_->queue;
  span.queue_after = queue;
  span.latencies.Add(last_->totals, totals);
  last_ = State{now, queue, totals};
  period_ns_ += (span.elapsed_ns - period_ns_) * (period_ns_ > 0 ? 1.0 / 16 : 1);

  if (slot_ns_ == 0) {
    LearnLatency(span);
    return;
  }
  LeaveOutStall(&span);
  if (span.queue_before > Workers()) busy_answers_ += (span.answers - busy_answers_) / 16;
  if (WasFull(span)) {
    LearnFullRate(span);
    full_ns_ += span.elapsed_ns;
    full_answers_ += span.answers;
    if (full_ns_ > kForGoodNs && full_answers_ > kForGood) LearnLatency(span);
  } else {
    LearnLatency(span);
    full_ns_ = std::max(full_ns_ - kNotFull * span.elapsed_ns, 0.0);
    full_answers_ = std::max(full_answers_ - kNotFull * span.answers, 0.0);
  }
  LearnQuickestWindow(span);
  LearnCrowd(span);
  JudgeSlot();
}

bool ServiceLearner::WasFull(const Span& span) {
  if (crowded_ns_ < unqueued_ns_) {
    counting_ = false;
  } else if (counting_) {
    return true;
  } else {
    // A crowd ends with an answer, so it must begin with one: from answer to answer are whole slots.
    counting_ = span.answers > 0;
    return false;
  }
  return span.queue_before > Workers() && span.latencies.count() >= 4 &&
         span.latencies.Quantile(0.05) > std::max(base_ns_, unqueued_ns_ + slot_ns_);
}

// A unit that owes answers and gives none for long is not slow but stuck: that time teaches nothing.
void ServiceLearner::LeaveOutStall(Span* span) {
  if (span->answers > 0 || span->queue_before == 0) {
    silent_ns_ = 0;
    return;
  }
  const double most = std::max(kLongestGap * slot_ns_, 2 * unqueued_ns_);
  const double elapsed = span->elapsed_ns;
  span->elapsed_ns = std::clamp(most - silent_ns_, 0.0, elapsed);
  silent_ns_ += elapsed;
}

void ServiceLearner::LearnFullRate(const Span& span) {
  full_rate_ns_.Add(span.elapsed_ns, span.answers);
  // The bounds tell of a time when the unit was quicker.
  if (Proven() && full_rate_ns_.recent() * kBeyondChance > Bound()) ForgetBounds();
  // As many as prove a slot end the doubt whether it is still that of now.
  unseen_full_ = std::max(unseen_full_ - kMemory / kProven * span.answers, 0.0);
}

void ServiceLearner::LearnQuickestWindow(const Span& span) {
  window_.elapsed_ns += span.elapsed_ns;
  window_.answers += span.answers;
  window_.arrivals += span.arrivals;
  // Answers to requests of an earlier time are no work of this one.
  const double answers = std::min(window_.answers, (window_.answers + window_.arrivals) / 2);
  if (answers < kWindow) return;
  const double per_answer = window_.elapsed_ns / answers;
  window_ = {};
  if (quickest_ns_[0] == 0 || per_answer < quickest_ns_[0]) quickest_ns_[0] = per_answer;
  if (++windows_ < kGeneration) return;
  windows_ = 0;
  quickest_ns_ = {0, quickest_ns_[0]};
}

void ServiceLearner::LearnCrowd(const Span& span) {
  if (probe_.queue > 0) {
    probe_.answers += span.answers;
    probe_.slowest_ns = std::max(probe_.slowest_ns, span.latencies.Greatest());
    if (probe_.answers >= probe_.queue) {
      Crowd& crowd = crowd_[probe_.queue];
      crowd.times = std::min(crowd.times + 1, kCrowdMemory);
      crowd.slowest_ns += (std::max(probe_.slowest_ns, unqueued_ns_) - crowd.slowest_ns) / crowd.times;
      probe_ = {};
    } else if (span.queue_after == 0) {  // some were given up
      probe_ = {};
    }
  }
  if (probe_.queue == 0 && span.queue_after <= kCrowd) probe_ = {span.queue_after, 0, 0};
}

double ServiceLearner::Bound() const {
  double bound = std::numeric_limits<double>::infinity();
  for (const double quickest : quickest_ns_)
    if (quickest > 0) bound = std::min(bound, quickest);
  // The last of q comes, on average, when the first is half done.
  for (uint32_t q = 1; q <= kCrowd; q++)
    if (crowd_[q].times >= kCrowdTimes) bound = std::min(bound, crowd_[q].slowest_ns / (q - 0.5));
  return bound;
}

void ServiceLearner::JudgeSlot() {
  slot_ns_ = Proven() ? std::min(full_rate_ns_.mean(), Bound() / kBeyondChance)
                      : std::min(unqueued_ns_ / std::max(workers_, 1u), Bound());
  slot_ns_ = std::max(slot_ns_, 1.0);
  // Whatever comes before the next look, the workers stay busy: twice the answers to be expected are left.
  // Where far fewer came than the slot allows while requests waited, the slot is still too short.
  const double expected = std::min(period_ns_ / slot_ns_, kSurely * busy_answers_);
  const bool crowded = last_->queue >= Workers() + 1 + 2 * expected;
  crowded_ns_ = crowded ? crowded_ns_ + period_ns_ : 0;
}

void ServiceLearner::ForgetBounds() {
  crowd_ = {};
  quickest_ns_ = {};
  windows_ = 0;
}

void ServiceLearner::LearnLatency(const Span& span) {
  unseen_full_ = std::min(unseen_full_ + span.answers, kMemory);
  if (span.answers == 0 && span.queue_before == 0 && span.queue_after == 0) {
    fresh_.idle_ns += span.elapsed_ns;
    return;
  }
  // Of a rest only what one request would have filled counts: a burst after a long one is no light load.
  fresh_.queue_ns[0] += std::min(fresh_.idle_ns, unqueued_ns_);
  fresh_.idle_ns = 0;
  fresh_.elapsed_ns += span.elapsed_ns;
  fresh_.queue_ns[std::min(span.queue_before, kQueues - 1)] += span.elapsed_ns / 2;
  fresh_.queue_ns[std::min(span.queue_after, kQueues - 1)] += span.elapsed_ns / 2;
  fresh_.latencies.Add(span.latencies);
  const double count = fresh_.latencies.count();
  if (count < kBatch && (count == 0 || fresh_.elapsed_ns < kBatchNs)) return;
  const double keep = std::exp(-count / kMemory);
  all_.latencies.Fade(keep);
  all_.latencies.Add(fresh_.latencies);
  for (uint32_t q = 0; q < kQueues; q++) all_.queue_ns[q] = all_.queue_ns[q] * keep + fresh_.queue_ns[q];
  fresh_ = {};
  if (all_.latencies.count() >= kFirst) JudgeLatency();
}

void ServiceLearner::JudgeLatency() {
  if (slot_ns_ > 0) {
    JudgeQueued();
  } else {
    base_ns_ = all_.latencies.Quantile(0.9);
    unqueued_ns_ = all_.latencies.MeanUpTo(4 * base_ns_);
    slot_ns_ = unqueued_ns_ / std::max(workers_, 1u);
  }
  if (unqueued_ns_ < slot_goes_with_ns_ || unseen_full_ < kMemory) slot_goes_with_ns_ = unqueued_ns_;
  if (unqueued_ns_ > slot_goes_with_ns_ * kSlower) {
    full_rate_ns_.Scale(unqueued_ns_ / slot_goes_with_ns_);
    ForgetBounds();
    slot_goes_with_ns_ = unqueued_ns_;
  }
}

void ServiceLearner::JudgeQueued() {
  const double workers = Workers();
  double time = 0, present = 0, within = 0, leisure = 0;
  for (uint32_t q = 0; q < kQueues; q++) {
    const double ns = all_.queue_ns[q];
    time += ns;
    present += ns * q;
    within += ns * std::min<double>(q, workers);
    leisure += ns * std::clamp(workers - q, 0.0, 1.0);
  }
  time = std::max(time, 1.0);
  const LatencySample& all = all_.latencies;
  const double p90 = all.Quantile(0.9), mean = all.MeanUpTo(4 * p90);  // a stall's answers say nothing
  const double use = std::min(present / mean * slot_ns_ / time, 1.0);
  const double share = std::clamp(leisure / time, Proven() ? kUnqueuedAtLeastProven : kUnqueuedAtLeast, 1.0);

  // Two ways to the unqueued mean. Little's law errs little at low and middle loads, and by ever more
  // the closer the unit is to full; the low quantiles, read as those of a lognormal distribution, are
  // right where it is clear who waited.
  const double median = all.Quantile(share / 2), low = std::max(all.Quantile(share * 0.16), 1.0);
  const double spread = std::log(std::max(median / low, 1.0));
  const double by_quantile = median * std::exp(spread * spread / 2);
  const double by_little = Proven() && present > 0 ? mean * within / present : 0;
  const double trusted = Blend(by_quantile, by_little, (0.92 - use) / 0.1);
  const double unqueued = std::min(mean, std::max(by_quantile, trusted));
  const double sigma = std::sqrt(1 + 2 * std::log(std::max(unqueued / low, 1.0))) - 1;
  const double base = std::min(p90, unqueued * std::exp(1.28 * sigma - sigma * sigma / 2));

  const double idle = (share - 0.9) / 0.08;  // nothing waits
  unqueued_ns_ = std::max(Blend(unqueued, mean, idle), 1.0);
  base_ns_ = std::max(Blend(base, p90, idle), unqueued_ns_);
}

Learnt ServiceLearner::learnt() const {
  if (slot_ns_ == 0) return {};
  return {static_cast<uint32_t>(std::clamp(base_ns_ / 1000, 1.0, 4294967295.0)),
          static_cast<uint32_t>(std::clamp(unqueued_ns_ / 1000, 1.0, 4294967295.0)),
          static_cast<uint32_t>(std::clamp(slot_ns_, 1.0, 4294967295.0))};
}

}  // namespace spillway::agent

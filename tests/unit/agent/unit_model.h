// SPDX-License-Identifier: Apache-2.0
// A processing unit in simulated time, and the request meter's own accounting of it: k workers, one queue,
// then a part of the latency that occupies nobody. Feeds a learner at every look, and predicts each
// request's latency from what the learner said, as a switch would.
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <queue>
#include <random>
#include <vector>

#include "agent/learner/outcome_learner.h"
#include "bpf/meter_account.h"

namespace spillway::agent {

struct UnitSpec {
  const char* name;
  int workers;
  double service_ms, fixed_ms;
  double variation = 0.2;  // coefficient of variation of the service, lognormal
  // A quota of CPU time: so much in each period, at full speed until it is used up. One worker only.
  double quota_ms = 0, period_ms = 0;  // 0: none
};

// Of the requests answered since the last question.
struct Predicted {
  double predicted_ms = 0, actual_ms = 0;  // means
};

class UnitModel {
 public:
  // timed: one in so many requests. cpus: that requests and answers come and go on, by chance.
  UnitModel(const UnitSpec& spec, double look_ms, OutcomeLearner* learner, uint64_t seed, uint32_t timed = 1,
            size_t cpus = 1)
      : spec_(spec),
        look_ms_(look_ms),
        timed_(timed),
        learner_(learner),
        random_(seed),
        counts_(cpus),
        free_at_(spec.workers) {}

  double slot_ms() const {
    return spec_.service_ms / spec_.workers * (spec_.quota_ms > 0 ? spec_.period_ms / spec_.quota_ms : 1);
  }
  double service_ms() const { return spec_.service_ms; }
  double unqueued_ms() const { return spec_.service_ms + spec_.fixed_ms; }

  void Slow(double factor) { spec_.service_ms *= factor; }

  // Until so many answers more; load: of what all workers can do. Poisson arrivals, or constant ones.
  void Serve(uint64_t answers, double load, bool poisson = true) {
    const double gap = slot_ms() / load;
    const auto next = [&] { return poisson ? gap * std::exponential_distribution<double>()(random_) : gap; };
    arrival_ms_ = now_ms_ + next();
    for (const uint64_t until = answered_ + answers; answered_ < until;) {
      const double answer = pending_.empty() ? 1e300 : pending_.top().at_ms;
      now_ms_ = std::min({answer, arrival_ms_, look_at_ms_});
      if (now_ms_ == look_at_ms_) {
        Look();
      } else if (now_ms_ == answer) {
        Answer();
      } else {
        Arrive();
        arrival_ms_ = now_ms_ + next();
      }
    }
  }
  // No arrivals for so long; what is in the unit is answered, unless it is frozen.
  void Rest(double ms, bool frozen = false) {
    const double end = now_ms_ + ms;
    while (look_at_ms_ <= end) {
      while (!frozen && !pending_.empty() && pending_.top().at_ms <= look_at_ms_) {
        now_ms_ = pending_.top().at_ms;
        Answer();
      }
      now_ms_ = look_at_ms_;
      Look();
    }
    now_ms_ = end;
    if (!frozen) return;
    std::vector<Request> late;
    for (; !pending_.empty(); pending_.pop()) late.push_back(pending_.top());
    for (Request& request : late) {
      request.at_ms += ms;
      pending_.push(request);
    }
    for (double& at : free_at_) at += ms;
  }
  Rationed rationed = {};  // what the learner is told at each look

  void Arrive() {
    Request request;
    request.came_ms = now_ms_;
    queue_++;
    double& worker = *std::min_element(free_at_.begin(), free_at_.end());
    worker = Done(std::max(worker, now_ms_), Service());
    request.at_ms = worker + spec_.fixed_ms;
    request.predicted_ms = Predict();
    request.timed = random_() % timed_ == 0;
    spw_meter_counts& mine = counts_[random_() % counts_.size()];
    mine.arrivals++;
    if (request.timed)
      request.marks = spw_meter_mark_request(&clocks_, &mine, ClockNs());
    else
      mine.untimed++;
    pending_.push(request);
  }
  // One that is never answered, and keeps no worker from the others.
  void ArriveForGood() {
    queue_++;
    counts_[0].arrivals++;
    counts_[0].untimed++;
  }
  void Look() {
    learner_->Look(std::chrono::nanoseconds(static_cast<int64_t>(ClockNs())), queue_, totals(),
                   static_cast<double>(counts_.size()), clocks_, rationed);
    drained_ms_ = now_ms_ + learner_->learnt().backlog_us / 1e3;
    look_at_ms_ = now_ms_ + look_ms_;
  }
  Predicted Judge() {
    const Predicted means{predicted_.predicted_ms / judged_, predicted_.actual_ms / judged_};
    predicted_ = {};
    judged_ = 0;
    return means;
  }

  spw_meter_counts totals() const {
    spw_meter_counts sum{};
    for (const spw_meter_counts& one : counts_)
      for (size_t i = 0; i < sizeof(one) / sizeof(uint64_t); i++)
        reinterpret_cast<uint64_t*>(&sum)[i] += reinterpret_cast<const uint64_t*>(&one)[i];
    return sum;
  }
  spw_meter_clocks& clocks() { return clocks_; }
  uint32_t queue() const { return queue_; }
  uint64_t ClockNs() const { return 1'000'000'000 + static_cast<uint64_t>(now_ms_ * 1e6); }

 private:
  struct Request {
    double at_ms = 0, came_ms = 0;  // answered, came
    double predicted_ms = 0;        // 0: nothing was known
    uint32_t marks = 0;
    bool timed = false;
    bool operator>(const Request& other) const { return at_ms > other.at_ms; }
  };

  double Sigma() const { return std::sqrt(std::log(1 + spec_.variation * spec_.variation)); }
  double Service() {
    const double sigma = Sigma();
    return spec_.service_ms *
           std::exp(sigma * std::normal_distribution<double>()(random_) - sigma * sigma / 2);
  }
  // When `service` that begins at `at` is done.
  double Done(double at, double service) {
    if (!(spec_.quota_ms > 0)) return at + service;
    while (true) {
      const double period = std::floor(at / spec_.period_ms);
      if (period != quota_period_) quota_left_ms_ = spec_.quota_ms;
      quota_period_ = period;
      const double end = (period + 1) * spec_.period_ms;
      const double run = std::min({service, quota_left_ms_, end - at});
      quota_left_ms_ -= run;
      service -= run;
      if (service <= 0) return at + run;
      at = end + 1e-9;
    }
  }
  // core/headroom.h: base + wait.
  double Predict() {
    const Learnt learnt = learner_->learnt();
    if (learnt.base_us == 0) return 0;
    const double slot = learnt.slot_ns / 1e6, backlog = std::max(drained_ms_ - now_ms_, 0.0);
    drained_ms_ = now_ms_ + backlog + slot;
    return learnt.base_us / 1e3 + std::max(0.0, backlog + slot - learnt.knee_us / 1e3);
  }
  void Answer() {
    const Request request = pending_.top();
    pending_.pop();
    queue_--;
    answered_++;
    if (request.predicted_ms > 0) {
      judged_++;
      predicted_.predicted_ms += request.predicted_ms;
      predicted_.actual_ms += now_ms_ - request.came_ms;
    }
    spw_meter_counts& mine = counts_[random_() % counts_.size()];
    mine.completed++;
    if (!request.timed) return;
    const uint32_t now = spw_meter_step(ClockNs());
    const uint32_t latency = spw_meter_step(static_cast<uint64_t>((now_ms_ - request.came_ms) * 1e6));
    mine.timed++;
    mine.latency_sum_ns += uint64_t{latency} << SPW_METER_STEP_SHIFT;
    mine.histogram[spw_meter_histogram_index(latency)]++;
    spw_meter_add_outcome(&mine, request.marks, now - latency, now);
  }

  UnitSpec spec_;
  double look_ms_;
  uint32_t timed_;
  OutcomeLearner* learner_;
  std::mt19937_64 random_;
  std::vector<spw_meter_counts> counts_;  // per CPU
  spw_meter_clocks clocks_{};
  std::vector<double> free_at_;
  std::priority_queue<Request, std::vector<Request>, std::greater<>> pending_;
  uint32_t queue_ = 0;
  uint64_t answered_ = 0;
  double quota_period_ = -1, quota_left_ms_ = 0;
  double now_ms_ = 0, look_at_ms_ = 0, arrival_ms_ = 0;
  double drained_ms_ = 0;  // as a switch reckons
  Predicted predicted_;    // sums
  double judged_ = 0;
};

}  // namespace spillway::agent

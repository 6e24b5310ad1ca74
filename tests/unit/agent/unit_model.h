// SPDX-License-Identifier: Apache-2.0
// A processing unit in simulated time, and a request meter that sees it: k workers, one queue, then a
// part of the latency that occupies nobody. Feeds a learner at every look.
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <queue>
#include <random>
#include <utility>
#include <vector>

#include "agent/service_learner.h"
#include "bpf/meter.h"

namespace spillway::agent {

struct UnitSpec {
  const char* name;
  int workers;
  double service_ms, fixed_ms;
  double variation = 0.2;  // coefficient of variation of the service, lognormal
  // A quota of CPU time: so much in each period, at full speed until it is used up. One worker only.
  double quota_ms = 0, period_ms = 0;  // 0: none
};

class UnitModel {
 public:
  UnitModel(const UnitSpec& spec, double look_ms, ServiceLearner* learner, uint64_t seed)
      : spec_(spec), look_ms_(look_ms), learner_(learner), random_(seed), free_at_(spec.workers) {}

  double slot_ms() const {
    return spec_.service_ms / spec_.workers * (spec_.quota_ms > 0 ? spec_.period_ms / spec_.quota_ms : 1);
  }
  double unqueued_ms() const { return spec_.service_ms + spec_.fixed_ms; }
  double p90_ms() const {
    return spec_.fixed_ms + spec_.service_ms * std::exp(1.2816 * Sigma() - Sigma() * Sigma() / 2);
  }
  double p90_of(double factor) const { return spec_.fixed_ms + (p90_ms() - spec_.fixed_ms) * factor; }

  void Slow(double factor) { spec_.service_ms *= factor; }

  // Until so many answers more; load: of what all workers can do. Poisson arrivals, or constant ones.
  void Serve(int answers, double load, bool poisson = true) {
    const double gap = slot_ms() / load;
    const auto next = [&] { return poisson ? gap * std::exponential_distribution<double>()(random_) : gap; };
    arrival_ms_ = now_ms_ + next();
    for (const uint64_t until = counts.completed + answers; counts.completed < until;) {
      const double answer = pending_.empty() ? 1e300 : pending_.top().first;
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
      while (!frozen && !pending_.empty() && pending_.top().first <= look_at_ms_) {
        now_ms_ = pending_.top().first;
        Answer();
      }
      now_ms_ = look_at_ms_;
      Look();
    }
    now_ms_ = end;
    std::vector<std::pair<double, double>> late;
    for (; frozen && !pending_.empty(); pending_.pop()) late.push_back(pending_.top());
    for (const auto& [answer, came] : late) pending_.push({answer + ms, came});
    if (frozen)
      for (double& at : free_at_) at += ms;
  }
  void Arrive() {
    counts.arrivals++;
    queue++;
    double& worker = *std::min_element(free_at_.begin(), free_at_.end());
    worker = Done(std::max(worker, now_ms_), Service());
    pending_.push({worker + spec_.fixed_ms, now_ms_});
  }
  void Look() {
    learner_->Look(std::chrono::nanoseconds(static_cast<int64_t>(now_ms_ * 1e6)), queue, counts);
    look_at_ms_ = now_ms_ + look_ms_;
  }

  spw_meter_counts counts{};
  uint32_t queue = 0;

 private:
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
  void Answer() {
    const auto ns = static_cast<uint64_t>((now_ms_ - pending_.top().second) * 1e6);
    pending_.pop();
    queue--;
    counts.completed++;
    counts.timed++;
    counts.latency_sum_ns += ns;
    counts.histogram[spw_meter_histogram_index(spw_meter_step(ns))]++;
  }

  UnitSpec spec_;
  double look_ms_;
  ServiceLearner* learner_;
  std::mt19937_64 random_;
  std::vector<double> free_at_;
  using Pending = std::pair<double, double>;  // when it is answered, when it came
  std::priority_queue<Pending, std::vector<Pending>, std::greater<>> pending_;
  double quota_period_ = -1, quota_left_ms_ = 0;
  double now_ms_ = 0, look_at_ms_ = 0, arrival_ms_ = 0;
};

}  // namespace spillway::agent

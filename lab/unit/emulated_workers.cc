// SPDX-License-Identifier: Apache-2.0
#include "lab/unit/emulated_workers.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <tuple>
#include <utility>

namespace spillway::unit {

ServiceTime::ServiceTime(Distribution distribution, std::chrono::nanoseconds mean, double cv,
                         std::uint64_t seed)
    : distribution_(distribution), mean_ns_(static_cast<double>(mean.count())), random_(seed) {
  // X = exp(mu + sigma Z) has mean exp(mu + sigma^2 / 2) and cv^2 = exp(sigma^2) - 1.
  sigma_ = std::sqrt(std::log1p(cv * cv));
  mu_ = -sigma_ * sigma_ / 2;
}

double ServiceTime::Uniform() { return static_cast<double>(random_() >> 11) * 0x1p-53; }

std::int64_t ServiceTime::NextNs() {
  double factor = 1;
  if (distribution_ == Distribution::kExponential) {
    factor = -std::log1p(-Uniform());
  } else if (distribution_ == Distribution::kLognormal && sigma_ > 0) {
    const double radius = std::sqrt(-2 * std::log1p(-Uniform()));
    factor = std::exp(mu_ + sigma_ * radius * std::cos(2 * std::numbers::pi * Uniform()));
  }
  return std::llround(mean_ns_ * factor);
}

Station::Station(std::size_t workers, std::size_t queue_limit)
    : queue_limit_(queue_limit), last_ns_(std::numeric_limits<std::int64_t>::min()) {
  for (std::size_t i = 0; i < workers; ++i) free_at_.push(last_ns_);
}

std::optional<Visit> Station::Arrive(std::int64_t now_ns, std::int64_t service_ns) {
  now_ns = std::max(now_ns, last_ns_);
  last_ns_ = now_ns;
  const std::int64_t start = std::max(now_ns, free_at_.top());
  if (start > now_ns) {
    if (Waiting(now_ns) >= queue_limit_) return std::nullopt;
    starts_.push(start);
  }
  free_at_.pop();
  free_at_.push(start + service_ns);
  return Visit{start, start + service_ns};
}

std::size_t Station::Waiting(std::int64_t now_ns) {
  while (!starts_.empty() && starts_.front() <= now_ns) starts_.pop();
  return starts_.size();
}

bool Pending::Later(const Entry& a, const Entry& b) {
  return std::tie(a.job.due_ns, a.order) > std::tie(b.job.due_ns, b.order);
}

void Pending::Add(Job job) {
  heap_.push_back({added_++, std::move(job)});
  std::push_heap(heap_.begin(), heap_.end(), Later);
}

std::optional<Job> Pending::TakeDue(std::int64_t now_ns) {
  if (heap_.empty() || heap_.front().job.due_ns > now_ns) return std::nullopt;
  std::pop_heap(heap_.begin(), heap_.end(), Later);
  Job job = std::move(heap_.back().job);
  heap_.pop_back();
  return job;
}

std::optional<std::int64_t> Pending::NextDueNs() const {
  if (heap_.empty()) return std::nullopt;
  return heap_.front().job.due_ns;
}

EmulatedWorkers::EmulatedWorkers(const EmulatedSettings& settings)
    : settings_(settings),
      service_time_(settings.distribution, settings.service, settings.cv, settings.seed),
      station_(settings.workers, settings.queue_limit) {}

bool EmulatedWorkers::Take(Job job) {
  // In double: a cost of 4 million times the mean must not overflow.
  const double cost = static_cast<double>(job.request.cost_milli) / 1000;
  job.service_ns =
      static_cast<std::int64_t>(std::min(static_cast<double>(service_time_.NextNs()) * cost, 1e15));
  const std::optional<Visit> visit = station_.Arrive(job.arrived_ns, job.service_ns);
  if (!visit) return false;
  job.wait_ns = visit->start_ns - job.arrived_ns;
  job.due_ns = visit->done_ns + settings_.extra_latency.count();
  pending_.Add(std::move(job));
  return true;
}

}  // namespace spillway::unit

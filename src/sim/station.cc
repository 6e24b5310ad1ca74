// SPDX-License-Identifier: Apache-2.0
#include "sim/station.h"

#include <algorithm>
#include <cmath>

namespace spillway::sim {

Station::Station(const UnitProfile& profile, double work, Duration wire, std::optional<uint64_t> seed,
                 SharedCpus* shared)
    : profile_(&profile),
      service_(std::max<Time>(1, std::llround(static_cast<double>(profile.service.count()) * work))),
      fixed_(std::max(profile.fixed, wire).count()),
      wire_(wire.count()),
      shared_(shared),
      alone_(service_),
      workers_free_(profile.workers, 0) {
  if (profile.interference != Interference())
    interferer_ = std::make_unique<Interferer>(profile.interference, seed.value_or(0));
  if (profile.cpu_quota.period.count() == 0) return;
  // Units were not started together.
  const auto period = static_cast<double>(profile.cpu_quota.period.count());
  cpu_ = std::make_unique<CpuWithQuota>(
      profile.cpu_quota, seed ? static_cast<Time>(Random(spw_mix64(*seed + 3)).Uniform() * period) : 0);
  alone_ = MeanFinish(profile.cpu_quota, service_);
}

std::optional<agent::QuotaReading> Station::QuotaAt(Time now) {
  if (!cpu_ || !profile_->quota_known) return std::nullopt;
  return agent::QuotaReading{.used_ns = static_cast<double>(cpu_->UsedBy(now)),
                             .quota_ns = static_cast<double>(profile_->cpu_quota.quota.count()),
                             .period_ns = static_cast<double>(profile_->cpu_quota.period.count()),
                             .periods = static_cast<uint64_t>(cpu_->PeriodsBy(now)),
                             .throttled = static_cast<uint64_t>(cpu_->PeriodsBy(now))};
}

// Until `until`, or until the work is done; what is left stays in `work`.
Time Station::Work(Time start, Time until, bool woken, Time& work) {
  if (cpu_) return cpu_->Run(start, until, woken, work, shared_);
  while (work > 0 && start < until) {
    Time step = std::min(work, until - start);
    if (shared_ != nullptr) {
      const SharedCpus::Gap gap = shared_->FirstGap(start);
      start = gap.begin;
      if (start >= until) return until;
      step = std::min({step, gap.end - start, until - start});
      shared_->Take(gap.cpu, start, start + step);
    }
    start += step;
    work -= step;
  }
  return start;
}

// A neighbour in the unit's control group uses up the quota that the unit leaves.
void Station::LetNeighbourWork(Time until) {
  const auto since = interferer_->NeighbourSince(until);
  if (!cpu_ || !since) return;
  Time endless = kNever;
  if (const Time from = std::max(neighbour_until_, *since); from < until)
    cpu_->Run(from, until, true, endless, shared_);
}

Time Station::Finish(Time start, bool woken, Time work) {
  if (!interferer_) return Work(start, kNever, woken, work);
  start += interferer_->Pause(woken);
  work = std::max<Time>(1, std::llround(static_cast<double>(work) * interferer_->Slowdown(start)));
  LetNeighbourWork(start);
  for (;;) {
    start = interferer_->AfterStall(start);
    const Time until = interferer_->NextStall(start);
    start = Work(start, until, woken, work);
    if (work == 0) break;
  }
  neighbour_until_ = start;
  return start;
}

bool Station::FailedAt(Time t) const {
  for (const Window& window : failures_) {
    if (window.from <= t && t < window.until) return true;
  }
  return false;
}

void Station::Occupy(Time until) {
  // Replaces the root of the heap and sifts it down.
  size_t i = 0;
  const size_t n = workers_free_.size();
  for (size_t child = 1; child < n; child = 2 * i + 1) {
    if (child + 1 < n && workers_free_[child + 1] < workers_free_[child]) child++;
    if (workers_free_[child] >= until) break;
    workers_free_[i] = workers_free_[child];
    i = child;
  }
  workers_free_[i] = until;
}

std::optional<Time> Station::Place(Time now, double multiplier) {
  if (IsFull()) return std::nullopt;
  const Time ready = now + fixed_;
  if (interferer_ && interferer_->FailsAt(now + wire_)) {
    // An error is no answer to whoever asked, but to the agent it is one, and a quick one.
    coming_.Push(now + wire_);
    answers_.Push({now + wire_ + interferer_->fails_after(), now + wire_});
    return std::nullopt;
  }
  const bool woken = workers_free_.front() <= ready;
  const Time start = woken ? ready : workers_free_.front();
  const Time work = std::max<Time>(1, std::llround(static_cast<double>(service_) * multiplier));
  if (shared_ != nullptr) shared_->Forget(now);
  if (cpu_) cpu_->Forget(now);
  const Time done = cpu_ || interferer_ || shared_ != nullptr ? Finish(start, woken, work) : start + work;
  for (const Window& window : failures_) {
    if (done <= window.from || now >= window.until) continue;
    // Lost with the unit, whose workers start afresh when it is back.
    for (Time& free : workers_free_) free = window.until;
    return std::nullopt;
  }
  Occupy(done);
  coming_.Push(now + wire_);
  answers_.Push({done, now + wire_});
  return done - now;
}

Time Station::WaitAt(Time now) const {
  Time ready = now + fixed_;
  for (const Window& window : failures_) {
    if (now >= window.from && now < window.until) return kNever / 4;
  }
  return std::max<Time>(0, workers_free_.front() - ready);
}

Time Station::WorkAheadAt(Time now) const {
  Time sum = 0;
  for (Time free : workers_free_) sum += std::max<Time>(0, free - now);
  return sum / static_cast<Time>(workers_free_.size());
}

}  // namespace spillway::sim

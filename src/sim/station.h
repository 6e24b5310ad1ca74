// SPDX-License-Identifier: Apache-2.0
// A unit's queue: k workers, first come first served, service times scaled by the axis `work`, and the fixed
// part. Since nobody overtakes, a request's whole fate is known when it is placed; what the unit's agent may
// see of it is told later, in the order of time. Not thread-safe; time never goes back.
//
//   placed ──wire──► arrives ──fixed──► waits ──► served ──► answered
//
// The fixed part of an unloaded latency lies before the queue and includes the wire, so that latency =
// fixed + wait + service.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "agent/learner/ration.h"
#include "sim/cpu_time.h"
#include "sim/event_queue.h"
#include "sim/interference.h"
#include "sim/scenario/scenario.h"

namespace spillway::sim {

using Time = int64_t;  // ns since the run began
inline constexpr Time kNever = INT64_MAX;

class Station {
 public:
  // seed: of the phases of its quota and stalls, and of its own draws; nullopt: periods begin at 0. shared:
  // the CPUs on which it works beside other stations, which it keeps; nullptr: it has its own.
  Station(const UnitProfile& profile, double work, Duration wire, std::optional<uint64_t> seed = {},
          SharedCpus* shared = nullptr);

  // A request with this multiplier of the mean service time is placed. Its latency in ns; nullopt: it is
  // never answered.
  std::optional<Time> Place(Time now, double multiplier);
  void FailDuring(Time from, Time until) { failures_.push_back({from, until}); }
  bool FailedAt(Time t) const;

  // The next thing its agent can see, at or before `until`; false: none. Until it has been asked, a
  // request counts towards queue_limit.
  struct Sight {
    Time at;
    bool answered;  // else: a request came
    Time latency;   // of the answered, as the agent measures it
  };
  bool Next(Time until, Sight& sight);
  // Without an agent: forgets what has been answered.
  void Forget(Time until) {
    Sight sight;
    while (Next(until, sight)) continue;
  }

  void Fetch() const {  // into the cache: Place is near
    __builtin_prefetch(this, 1);
    __builtin_prefetch(reinterpret_cast<const char*>(this) + 64, 1);
  }

  uint32_t queue() const { return queue_; }          // as the agent has seen so far
  uint64_t completed() const { return completed_; }  // likewise
  Time NextAnswer() const { return answers_.empty() ? kNever : answers_.front().at; }
  // Of its quota, as its agent may read it; nullopt: it has none, or it is not known.
  std::optional<agent::QuotaReading> QuotaAt(Time now);
  bool IsFull() const { return coming_.size() + queue_ >= profile_->queue_limit; }
  void Reboot() { completed_ = 0; }

  // For the omniscient: what a request placed now would wait, and the work ahead of it per worker.
  Time WaitAt(Time now) const;
  Time WorkAheadAt(Time now) const;

  Time service() const { return service_; }
  Time unloaded() const { return alone_ + fixed_; }
  Time slot() const { return std::llround(static_cast<double>(service_) / profile_->sustained_workers()); }
  const UnitProfile& profile() const { return *profile_; }

 private:
  struct Window {
    Time from, until;
  };
  struct Answer {
    Time at, came;
  };
  void Occupy(Time until);  // the worker that is free first
  Time Finish(Time start, bool woken, Time work);
  Time Work(Time start, Time until, bool woken, Time& work);
  void LetNeighbourWork(Time until);

  const UnitProfile* profile_;
  Time service_, fixed_, wire_;
  // Apart, as few have them and Fetch takes two lines: of units with a quota; with interference.
  std::unique_ptr<CpuWithQuota> cpu_;
  std::unique_ptr<Interferer> interferer_;
  SharedCpus* shared_;
  Time neighbour_until_ = 0;        // when the quota's use by a regular neighbour has been counted
  Time alone_;                      // mean time in service of a request that is alone
  std::vector<Time> workers_free_;  // heap, earliest first: when each worker has done all given to it
  EventQueue<Time> coming_;         // placed, not yet seen to arrive
  EventQueue<Answer> answers_;      // not yet seen to leave
  std::vector<Window> failures_;
  uint32_t queue_ = 0;
  uint64_t completed_ = 0;
};

inline bool Station::Next(Time until, Sight& sight) {
  const Time comes = coming_.empty() ? kNever : coming_.front();
  const Time leaves = answers_.empty() ? kNever : answers_.front().at;
  if (std::min(comes, leaves) > until) return false;
  if (comes <= leaves) {
    coming_.Pop();
    queue_++;
    sight = {comes, false, 0};
  } else {
    sight = {leaves, true, leaves - answers_.front().came};
    answers_.Pop();
    queue_--;
    completed_++;
  }
  return true;
}

}  // namespace spillway::sim

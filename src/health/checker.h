// SPDX-License-Identifier: Apache-2.0
// Runs the active checks of a configuration: when each starts, when its time is over, and what the results
// say of each unit (check_track.h). What follows for the traffic is not decided here.
//
// Threading: a thread of its own does all checks. SetConfig and Views may be called from any thread, and do
// not wait for what the checker's thread does with its probes; `on_change` is called on that thread, without
// any of its locks.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <queue>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "base/mutex.h"
#include "check_track.h"
#include "model/pool.h"
#include "probe.h"
#include "probe_kinds.h"
#include "reactor.h"

namespace spillway::health {

// "http 10.0.1.1:80/healthz": what a check asks, for people.
std::string Describe(const model::HealthCheck& check, const model::Address& address);

struct CheckView {
  std::string service, pool, server, unit;
  std::string what;  // Describe
  CheckState state = CheckState::kUnknown;
  double state_s = 0;               // time in this state
  double held_s = 0;                // failing: not back before, by dampening
  std::string reason;               // of the last failure
  uint64_t passed = 0, failed = 0;  // checks
  uint64_t skipped = 0;             // which this machine could not make
  std::string skip_reason;          // of the last one skipped
  uint64_t changes = 0;             // of state
  std::optional<double> last_ms;    // how long the last one took; nullopt: none yet
};

// A unit that became failing, or came back. Or, once in a while, that checks were skipped.
struct CheckChange {
  std::string service, pool, server, unit;
  CheckState state = CheckState::kUnknown;
  std::string reason;   // of a failing one; of a check that was skipped
  double before_s = 0;  // time in the state before
  uint64_t skipped =
      0;  // > 0: no change, but so many checks, of this unit and others, since the last such word
};

// A unit that one of its checks finds failing.
struct FailingUnit {
  std::string pool, server, unit;
  TimePoint since;
  bool move = false;  // on_fail: move
};

// Who a check is about.
using UnitName = std::tuple<std::string, std::string, std::string>;  // pool, server, unit

// What its checks witness for a unit: the service itself has answered all of them for a while.
struct Witness {
  UnitName unit;
  TimePoint since, last;  // the first and the last of the passes in a row, of the check that has least
  std::chrono::milliseconds pace{};  // passes come so often, of the slowest check
};

class Checker {
 public:
  // All failing units, each once, and the changes since the last call. Not called when nothing changed.
  using OnChange = std::function<void(const std::vector<CheckChange>&, const std::vector<FailingUnit>&)>;

  [[nodiscard]] static Result<std::unique_ptr<Checker>> Start(const model::Config& config,
                                                              OnChange on_change);
  ~Checker();
  Checker(const Checker&) = delete;
  Checker& operator=(const Checker&) = delete;

  // Checks that stay the same (service, unit, address and every key) go on undisturbed, those that run as
  // well; changed ones go on from what is known (CheckTrack::GoOnFrom).
  void SetConfig(const model::Config& config);

  std::vector<CheckView> Views() const;
  // Of these units those that pass all their checks now, if the checks can witness for them: each service of
  // the pool has one that needs an answer of the service itself (`tcp` and `tls` do not), and asks all that
  // it has, that is the service has no port of another number.
  std::vector<Witness> Witnesses(const std::set<UnitName>& units) const;

 private:
  struct Target;
  struct Timer {
    TimePoint due;
    Target* target;
    uint64_t round;  // of the target when it was set; another one since: it is of no meaning any more
    bool operator>(const Timer& other) const { return due > other.due; }
  };
  using Key = std::tuple<std::string, std::string, std::string, std::string>;

  Checker(std::unique_ptr<Reactor> at_once, std::unique_ptr<Reactor> each_turn, OnChange on_change);
  void Loop();
  std::chrono::milliseconds UntilNext(TimePoint now) const;
  void HandOut(Reactor& reactor, std::chrono::milliseconds wait) SPILLWAY_EXCLUDES(mutex_);
  bool Fetch(Reactor& reactor, std::chrono::milliseconds wait);
  void TakeConfig(TimePoint now);
  void GoOn(const Target& before, Target& target) SPILLWAY_REQUIRES(mutex_);
  void SetTurn() SPILLWAY_REQUIRES(mutex_);
  void Turn(TimePoint now);
  template <class Do>
  void ForEachInBatch(Do act);
  void RunTimers(TimePoint now);
  void StartCheck(Target& target) SPILLWAY_EXCLUDES(mutex_);
  void OnTimeOut(Target& target) SPILLWAY_EXCLUDES(mutex_);
  bool ExcuseStall(Target& target);
  void OnOutcome(Target& target, const Outcome& outcome) SPILLWAY_EXCLUDES(mutex_);
  void Schedule(Target& target, TimePoint due);
  // Both read what Views does without the mutex: on the only thread that writes it, which clang cannot know.
  size_t CountTargets() const SPILLWAY_NO_THREAD_SAFETY_ANALYSIS { return targets_.size(); }
  std::vector<FailingUnit> Failing() const SPILLWAY_NO_THREAD_SAFETY_ANALYSIS;

  const std::unique_ptr<Reactor> at_once_;    // waited at
  const std::unique_ptr<Reactor> each_turn_;  // looked at once a turn
  const OnChange on_change_;
  std::mt19937_64 random_{std::random_device{}()};  // jitter

  // What Views reads: targets_, and each one's track and counters. Only the checker's thread changes them, so
  // it takes mutex_ to write, not to read; never while a probe does its work, which a unit or this machine's
  // storage may make long.
  mutable base::Mutex mutex_;
  std::vector<std::unique_ptr<Target>> targets_ SPILLWAY_GUARDED_BY(mutex_);
  // Pools with a service whose check cannot witness.
  std::set<std::string> unwitnessed_ SPILLWAY_GUARDED_BY(mutex_);

  // The checker's thread alone, up to the empty line.
  std::unique_ptr<WebSessions> web_;
  std::priority_queue<Timer, std::vector<Timer>, std::greater<>> timers_;
  // Checks begin, are looked at and time out in turns, so that those of a turn share one way of the thread
  // from its sleep and back, which costs more than a check does.
  std::chrono::milliseconds turn_{};
  TimePoint next_turn_{};
  std::deque<Timer> looks_;                      // due a turn after their checks began
  std::vector<Timer> batch_;                     // what a turn takes out of those
  std::vector<std::unique_ptr<Probe>> retired_;  // not settled yet
  std::vector<CheckChange> changes_;
  bool changed_ = false;           // what is failing, perhaps
  uint64_t skipped_ = 0;           // since skips were last reported,
  TimePoint report_skips_from_{};  // which they are not before
  TimePoint report_from_{};        // on_change is not called before
  TimePoint fetched_;              // when events were last fetched
  // In all: long times without a look at events.
  std::chrono::steady_clock::duration stalled_{0};

  base::Mutex wanted_mutex_;
  std::optional<model::Config> wanted_ SPILLWAY_GUARDED_BY(wanted_mutex_);
  std::atomic<bool> stop_ = false;
  std::thread thread_;
};

}  // namespace spillway::health

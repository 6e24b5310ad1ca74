// SPDX-License-Identifier: Apache-2.0
// What a unit may still do under its CPU quota, from the kernel's own accounts of its control group: how long
// it stands still once the budget of a period is used up, and what a further request costs those that come
// after it. Latencies tell neither in time: the unit is as quick as ever until it stops. Pure: time is an
// argument. Not thread-safe.
//
// What is asked of the unit until the period ends is taken to scatter as its requests of late did. From that
// and from what is left of the budget:
//
// price   If more is asked than is left, one request more stops the unit earlier by the time between two
//         requests, and each of those that come too late waits so much longer: expected are the requests
//         beyond the budget, times the time between two. Not while only a few requests in a hundred would be
//         late in all: to spare them, as many would have to go to slower units.
// slot    The time until the period ends over the requests left, times the chance that more are asked: the
//         switch knows how much has been used by when it was last told, and paces its requests between.
//
// A unit that uses more than its budget and is not stopped is not ruled by it: real-time threads, say, or
// what CPUs kept of earlier periods. Then nothing is said for a while.
//
// The kernel counts periods but does not say when they begin: that is narrowed down by when the count was
// seen to change. Quotas that are worth a few requests of a short period have neither price nor slot, nor
// those of periods in which the switch is told too rarely: before it knows, all may be used or given anew.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

namespace spillway::agent {

// A control group's accounts at a look. Times in ns.
struct QuotaReading {
  double used_ns = 0;      // CPU time since whenever
  double quota_ns = 0;     // CPU time in each period
  double period_ns = 0;    // > 0
  uint64_t periods = 0;    // that have begun since whenever, while it had work
  uint64_t throttled = 0;  // those of them in which it was stopped
  uint64_t group = 0;      // another number: another group
};

struct Rationed {
  double refill_ns = 0;  // until there is CPU time again; 0: there is some
  double price_ns = 0;   // by which others wait longer, in all, for one request more
  double slot_ns = 0;    // that a request counts at least
};

class Ration {
 public:
  using Time = std::chrono::nanoseconds;

  // told_within: of a change until the switch is told (agent/learner/switch_view.h).
  explicit Ration(Time told_within = std::chrono::milliseconds(1)) : told_within_(told_within) {}
  // arrivals, answers: since whenever. A reading whose counters went back begins anew.
  void Learn(Time now, const QuotaReading& reading, uint64_t arrivals, uint64_t answers);
  // Whether a reading is wanted: a look more often than 32 times a period tells nothing, and on large
  // machines the kernel gathers a group's time from all CPUs for each.
  bool Due(Time now) const;
  // Instead of a reading: time has passed.
  void Pass(Time now);
  const Rationed& rationed() const { return rationed_; }

 private:
  void LearnBeginning(double from_ns, double until_ns, const QuotaReading& reading);
  void LearnRequests(double elapsed_ns, const QuotaReading& reading, uint64_t arrivals, uint64_t answers);
  void LearnScatter(double elapsed_ns, double arrived, double window_ns);
  void Spend(double from_ns, double until_ns, const QuotaReading& reading);
  double BeginningBefore(double at_ns, double period_ns) const;  // of the period that `at_ns` is in
  void Judge(double now_ns, const QuotaReading& reading);
  void JudgeRequests(double left, double of_quota, double to_end_ns, double period_ns);
  struct Beyond {
    double probability = 0, requests = 0;  // that more than a limit come; how many more are expected
  };
  Beyond ExpectBeyond(double mean, double limit) const;
  double AskedPerNs() const;
  double Scatter() const;

  Time told_within_;
  std::optional<QuotaReading> last_;
  double at_ns_ = 0;
  uint64_t arrivals_ = 0, answers_ = 0;
  // A period began between these, to a multiple of its length; no width: not known.
  double begins_ns_ = 0, begins_within_ns_ = 0;
  uint64_t throttled_ = 0;  // by when the period began
  double silent_until_ns_ = 0;
  double left_ns_ = 0;               // of the budget; below 0: used in advance, which the next period pays
  double cost_ns_ = 0, costed_ = 0;  // CPU time of so many answers
  double arrivals_per_ns_ = 0, answers_per_ns_ = 0, asked_ns_ = 0;  // and over how long
  // Requests in windows of equal length: their mean, mean square off it, and how many windows they rest on.
  double window_ns_ = 0, window_requests_ = 0;  // so far
  double mean_ = 0, variance_ = 0, windows_ = 0;
  Rationed rationed_;
};

}  // namespace spillway::agent

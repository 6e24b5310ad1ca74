// SPDX-License-Identifier: Apache-2.0
// Learns what a unit can do from what passes it: base, span and slot, as policy `headroom` wants
// them (core/headroom.h). Fed at each look at the request meter. Pure: time is an argument. Not
// thread-safe.
//
// slot   A look is *full* if more requests were in the unit, all the time, than it serves at once, or if
//        all of its answers had clearly waited. Time over answers of the full looks is the slot. Until
//        there were some, it is known to be at most the time per answer in the quickest window of 64
//        answers, and the latency of the slowest of q requests that were in the unit together, over q.
//        Later these bounds show that a unit became quicker.
// span   The latencies of all but the full looks are kept, with the time spent at each queue length. By
//        Little's law the part of the queue that is served at once is span's part of the mean latency;
//        and the share of time in which the queue leaves a worker free is the share of requests that
//        need not wait, whose quantiles the low end of the latencies therefore shows. At a low load
//        nothing waits, and the latencies are taken as they are. Span over slot requests are served at
//        once: those of the workers, and those under way without occupying one.
// base   From span and the spread of the low end; at a low load the 90th percentile itself.
//
// A unit that becomes slower without being full is taken to serve as many at once as before. Some hundred
// answers make a change known.
//
// Where it fails. Of a unit that was never full, slot is an upper bound, off by a factor of two or more
// below a third of its load. An agent that starts at a unit above 90 % of its load knows base to within a
// factor of two until the load falls. Latency that grows without costing the unit work (a slower back
// end) looks like a full unit where it exceeds base by far: it counts as slot until the queue drains,
// or as base after a minute. With service times that vary as much as their mean, base and span come out
// up to half too low, and at a high and even load far lower.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <optional>

#include "agent/fading_mean.h"
#include "agent/latency_sample.h"
#include "bpf/meter.h"

namespace spillway::agent {

struct Learnt {  // all 0 until learnt
  uint32_t base_us = 0;
  uint32_t span_us = 0;
  uint32_t slot_ns = 0;
  bool operator==(const Learnt&) const = default;
};

class ServiceLearner {
 public:
  using Time = std::chrono::nanoseconds;

  // workers: requests that the unit works on at once, if known, else 0. While it has never been full, slot
  // starts from there.
  explicit ServiceLearner(uint32_t workers = 0) : workers_(workers) {}

  // queue: requests in the unit now. totals: the meter's counters since whenever; if they went back,
  // the meter was restarted, and what came between is lost. Looks may be as rare or as many as wanted.
  void Look(Time now, uint32_t queue, const spw_meter_counts& totals);
  Learnt learnt() const;

 private:
  struct Span {  // from one look to the next
    double elapsed_ns = 0, answers = 0, arrivals = 0;
    uint32_t queue_before = 0, queue_after = 0;
    LatencySample latencies;
  };

  double Workers() const;  // unrounded, at least 1
  bool Proven() const;     // by full looks
  void LeaveOutStall(Span* span);
  bool WasFull(const Span& span);
  void LearnFullRate(const Span& span);
  void LearnQuickestWindow(const Span& span);
  void LearnCrowd(const Span& span);
  double Bound() const;  // the slot is at most this
  void JudgeSlot();
  void ForgetBounds();
  void LearnLatency(const Span& span);
  void JudgeLatency();
  void JudgeQueued();

  uint32_t workers_;
  struct State {  // at the last look
    Time at{0};
    uint32_t queue = 0;
    spw_meter_counts totals{};
  };
  std::optional<State> last_;
  double period_ns_ = 0;  // between looks, smoothed

  // What is learnt; 0: not yet.
  double unqueued_ns_ = 0;  // mean latency of requests that need not wait
  double base_ns_ = 0;      // their 90th percentile
  double slot_ns_ = 0;

  FadingMean full_rate_ns_{512};           // time per answer in full looks
  double busy_answers_ = 0;                // from one look to the next while requests waited, smoothed
  double crowded_ns_ = 0;                  // the queue has been above the workers for so long
  bool counting_ = false;                  // and an answer has been seen since
  double silent_ns_ = 0;                   // since the last answer
  double full_ns_ = 0, full_answers_ = 0;  // hardly anything but full looks for so long
  double unseen_full_ = 0;                 // answers since the unit was full for some time
  double slot_goes_with_ns_ = 0;           // the unqueued_ns_ that the slot was learnt at

  struct Window {
    double elapsed_ns = 0, answers = 0, arrivals = 0;
  } window_;
  uint32_t windows_ = 0;                 // of this generation
  std::array<double, 2> quickest_ns_{};  // per answer, in this generation and the one before; 0: none

  static constexpr uint32_t kCrowd = 64;
  struct Crowd {  // by queue length: mean latency of the slowest of those present
    double slowest_ns = 0;
    uint32_t times = 0;
  };
  std::array<Crowd, kCrowd + 1> crowd_{};
  struct Probe {         // those present at some look, until as many are answered
    uint32_t queue = 0;  // 0: none under way
    double answers = 0, slowest_ns = 0;
  } probe_;

  static constexpr uint32_t kQueues = 256;  // longer ones count as the longest
  struct Batch {
    LatencySample latencies;
    std::array<double, kQueues> queue_ns{};  // time spent with so many requests in the unit
    double elapsed_ns = 0, idle_ns = 0;
  };
  Batch fresh_, all_;  // all_ fades
};

}  // namespace spillway::agent

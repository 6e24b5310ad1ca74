// SPDX-License-Identifier: Apache-2.0
// Learns from outcomes what policy `headroom` wants to know of a unit (core/headroom.h): base, slot and knee.
// Each timed request comes with the backlog that it found, by several clocks, and its latency
// (bpf/meter_backlog.h). Fed at each look at the request meter. Pure: time is an argument. Not thread-safe.
//
// slot   The unit's pace (pace.h), or as many times it as the clock says that predicted latencies best
//        (backlog_clocks.h).
// base   and knee are those of that clock's curve (latency_curve.h). To base, three quarters of
//        a standard deviation of the unqueued latencies are added, at most as much again: a unit that
//        scatters is more likely to answer late.
// tail   is the latency that 98 of 100 answers stay below at the present load (latency_sample.h).
//
// A unit that stands still (no answer, though requests came: one, or two where several workers are known) is
// reported with that much more backlog as it will go on so, by the latencies that were as long.
//
// Of a unit under a CPU quota whose accounts are read (ration.h), the time until there is a budget again is
// backlog, too, its slot is longer while the budget is scarce, and a request has a price.
// The clocks go on without.
//
// What is not tried is forgotten: base then goes back to what the quickest of the requests took that found
// the unit nearly empty, so that it is tried again, with a few requests.
//
// Where it fails. A unit that never gets a second request while it serves one is taken to serve `workers` at
// once (1 if not known); its slot is marked as a guess. Under a quota that is not known
// latency also depends on where in the period a request comes, which no clock knows.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "agent/learner/backlog_clocks.h"
#include "agent/learner/latency_sample.h"
#include "agent/learner/pace.h"
#include "agent/learner/ration.h"
#include "bpf/meter.h"

namespace spillway::agent {

struct Learnt {  // all 0 until learnt
  uint32_t base_us = 0;
  uint32_t slot_ns = 0;
  uint32_t knee_us = 0;
  uint32_t backlog_us = 0;    // at the last look
  uint32_t price_us = 0;      // by which others wait longer for one request more (ration.h)
  uint32_t tail_us = 0;       // 98 of 100 requests took at most this
  bool slot_guessed = false;  // too few requests have waited
  bool operator==(const Learnt&) const = default;
};

class OutcomeLearner {
 public:
  using Time = std::chrono::nanoseconds;

  // workers: requests that the unit works on at once, if known, else 0.
  explicit OutcomeLearner(uint32_t workers = 0) : workers_(workers) {}

  // queue: requests in the unit now. totals: the meter's counters since whenever; if they went back, the
  // meter was restarted, and what came between is lost. cpus: that answers leave on. Sets the clocks'
  // slots and corrects them. Looks may be as rare or as many as wanted. rationed: as of now, of a unit whose
  // quota is known.
  void Look(Time now, uint32_t queue, const spw_meter_counts& totals, double cpus, spw_meter_clocks& clocks,
            const Rationed& rationed = {});
  Learnt learnt() const { return learnt_; }

 private:
  void NoteProgress(Time now, uint32_t queue, const spw_meter_counts& totals);
  void LearnLatencies(const spw_meter_counts& totals, double timed, bool unqueued);
  void Correct(Time now, uint32_t queue, spw_meter_clocks& clocks);
  void Tell(Time now, const spw_meter_clocks& clocks, const Rationed& rationed);
  double StandstillNs(Time now) const;

  uint32_t workers_;
  std::optional<spw_meter_counts> last_;
  Time at_{0};
  uint32_t queue_ = 0;    // at the last look
  Time stands_since_{0};  // no answer since, though requests were in the unit at that look and at all since
  uint64_t arrived_ = 0;  // requests by then; those that came later must be in the unit
  double answers_ = 0;    // seen in all
  double fresh_ = 0;      // since the last fit
  Time fitted_{0};        // when
  double mean_ns_ = 0;    // latency
  LatencySample latencies_;
  LatencySample unqueued_;  // those of looks with no more requests in the unit than it works on at once

  Pace pace_;
  TailLatency tail_;
  BacklogClocks clocks_;
  Learnt learnt_;
};

}  // namespace spillway::agent

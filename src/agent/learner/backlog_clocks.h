// SPDX-License-Identifier: Apache-2.0
// The clocks by which a unit's backlog is told (bpf/meter_backlog.h), and which of them to believe. Each adds
// a slot per request and drains as time passes; a unit that works in bursts (a CPU quota, garbage collection)
// is slower in the long run than while requests wait, so the clocks' slots are 2^n, 2^(n+1) and 2^(n+2) times
// the unit's pace. Each has a curve of latency by the backlog that it showed.
//
// The clock whose curve predicted latencies best is believed. Where that is the slowest or the fastest of
// them, n moves. Clocks that the throughput bounds to about the same slot tell nothing apart: then the
// fastest counts. So it does of clocks that predict alike: the slower ones show backlogs that nobody waits
// for.
//
// A unit whose last answers took less than a third of what was predicted, or many of them clearly less, is
// quicker than it was, or what was learnt of it (in an overload, say) is wrong: nearly all of it is forgotten
// at once.
//
// Pure: time is an argument. Not thread-safe.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>

#include "agent/learner/latency_curve.h"
#include "bpf/meter.h"

namespace spillway::agent {

class BacklogClocks {
 public:
  // What an overload that is over leaves of what was learnt in it: this part.
  static constexpr double kKeptOfOverload = 1.0 / 32;

  // The answers from `last` to `totals`. True: an overload is over.
  bool Learn(const spw_meter_counts& last, const spw_meter_counts& totals);
  void Fade(double keep);
  // Sets the clocks' slots by the unit's pace, none longer than longest_ns, and corrects what they show:
  // `queue` requests are in the unit.
  void Set(std::chrono::nanoseconds now, uint32_t queue, double pace_ns, double longest_ns,
           spw_meter_clocks& clocks);
  // After Set. quickest_ns: what requests take that wait for nobody; mean_ns: what all take.
  void Fit(double quickest_ns, double mean_ns);
  // After Set, and Fit where it is time for it.
  void Choose();

  // False where the fastest clock has no curve yet: at first, and when it has just been added.
  bool fitted() const { return clocks_[0].curve.fitted(); }
  // Of the clock that is believed.
  const LatencyCurve& curve() const { return clocks_[best_].curve; }
  double BacklogNs(std::chrono::nanoseconds now, const spw_meter_clocks& clocks) const {
    return static_cast<double>(clocks.drained_ns[best_]) - static_cast<double>(now.count());
  }

 private:
  struct Clock {
    LatencyCurve curve;
    double error = 0;       // mean square of what the curve missed latencies by
    double missed_ns2 = 0;  // squares in all, of the answers that clocks are compared by
  };

  void PreferFaster(double answers);
  void CompareAnew();
  double AlikeNs2() const;
  bool ForgetOverload(const LatencyCurve::Seen& best);
  void FollowPace(double pace_ns);
  void Move(spw_meter_clocks& clocks);

  std::array<Clock, SPW_METER_CLOCKS> clocks_{};
  double judged_ = 0;    // answers that the clocks' errors rest on
  double compared_ = 0;  // those that the clocks were compared by since one was preferred last
  // What the best clock predicted, of few answers and of many.
  std::array<LatencyCurve::Seen, 2> lately_{};
  size_t best_ = 0;         // clock
  uint32_t first_ = 1;      // slot of the first clock, in paces; each next one is twice as slow
  double followed_ns_ = 0;  // the pace that first_ was last fitted to
  double quickest_ns_ = 0;  // what requests take that wait for nobody, as of the last fit
};

}  // namespace spillway::agent

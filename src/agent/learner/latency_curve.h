// SPDX-License-Identifier: Apache-2.0
// Latency by the backlog that a request found, as one of the unit's clocks counts it (bpf/meter_backlog.h):
//
//   latency = base + max(0, backlog + slot - knee)
//
// a line that rises by a slot per request, from the knee on. Base and knee are fitted to the mean latencies
// at 16 backlogs. Beyond the backlogs that have been seen requests are taken to wait. Below them the knee
// lies where it explains the latencies of those seen: a unit that always has the same long queue would
// otherwise seem not to let anybody wait. Pure. Not thread-safe.
#pragma once

#include <array>

#include "bpf/meter.h"

namespace spillway::agent {

class LatencyCurve {
 public:
  struct Seen {  // of one look
    double answers = 0;
    double predicted_ns = 0, took_ns = 0;  // by those answers in all
    double missed_ns2 = 0;                 // squares of what the curve missed them by
  };
  Seen Learn(const spw_meter_outcome (&before)[SPW_METER_BINS],
             const spw_meter_outcome (&after)[SPW_METER_BINS]);
  void Fade(double keep);

  // The unit's slot by this clock, as the curve's base, knee and forecasts take it from now on.
  void set_slot_ns(double slot_ns) { slot_ns_ = slot_ns; }
  // quickest_ns: a low quantile of the latencies. mean_ns: what is taken for the base while nothing is known.
  void Fit(double quickest_ns, double mean_ns);

  bool fitted() const { return base_ns_ > 0; }
  double slot_ns() const { return slot_ns_; }
  double base_ns() const { return base_ns_; }
  double knee_ns() const { return knee_ns_; }
  double Scatter() const;  // standard deviation of the latencies below the knee

 private:
  struct Bin {  // requests that found a backlog of about so many slots; fades
    double answers = 0, backlog = 0, latency_ns = 0, latency_ns2 = 0;
    void Fade(double keep);
    double Slots() const { return backlog / answers; }
    double Mean() const { return latency_ns / answers; }
  };
  double Predict(double backlog_slots) const;

  std::array<Bin, SPW_METER_BINS> bins_{};
  double slot_ns_ = 0, base_ns_ = 0, knee_ns_ = 0;  // 0: not yet
};

}  // namespace spillway::agent

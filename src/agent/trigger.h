// SPDX-License-Identifier: Apache-2.0
// Reading -> busy bit and level. Pure: time is an argument. Not thread-safe.
//
//   available ──trip──► busy ──release──► available
//
// trip     a measurement over the threshold, the smoothed measure at or over it, a stall longer than
//          it (latency only), or more than queue_high requests in the unit
// release  none of these, and either a fresh measure below threshold * release_ratio, or the unit has
//          drained: a busy unit gets no new requests whose latency could show that it is free
// pulse    (second_report_after) a trip lasts that long and no longer; it takes new evidence to trip
//          again
#pragma once

#include <cstdint>
#include <optional>

#include "agent/config.h"
#include "agent/failure_detector.h"
#include "agent/meters/reading.h"

namespace spillway::agent {

struct Verdict {
  bool busy = false;
  bool changed = false;              // busy is not what the last verdict said
  uint8_t level = 0;                 // 0 idle, 128 at the threshold, 255 at twice the threshold or more
  Failure failure = Failure::kNone;  // not the trigger's: failure_detector.h
};

class Trigger {
 public:
  explicit Trigger(const TriggerConfig& config, MeterKind kind) : config_(config), kind_(kind) {}

  Verdict Update(Time now, const Reading& reading);
  // When a pulse ends; call EndPulse then. nullopt: no pulse is on.
  std::optional<Time> pulse_end() const { return pulse_end_; }
  // The available report of a pulse, if its time has come.
  std::optional<Verdict> EndPulse(Time now);
  bool busy() const { return busy_; }

 private:
  double StallRatio(const Reading& reading) const;
  bool Trips(const Reading& reading) const;
  bool Releases(const Reading& reading) const;
  uint8_t Level(const Reading& reading, bool tripped) const;

  TriggerConfig config_;
  MeterKind kind_;
  bool busy_ = false;
  uint8_t level_ = 0;
  double last_ratio_ = 0;  // measure / threshold when it was last fresh; forgotten when drained
  std::optional<Time> pulse_end_;
};

}  // namespace spillway::agent

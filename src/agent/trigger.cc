// SPDX-License-Identifier: Apache-2.0
#include "agent/trigger.h"

#include <algorithm>

#include "core/report.h"

namespace spillway::agent {

double Trigger::StallRatio(const Reading& reading) const {
  return kind_ == MeterKind::kLatency ? static_cast<double>(reading.stall.count()) / config_.threshold : 0;
}

bool Trigger::Trips(const Reading& reading) const {
  return reading.exceeded || (reading.measure && *reading.measure >= config_.threshold) ||
         StallRatio(reading) > 1 ||
         (config_.queue_high && reading.queue && *reading.queue > config_.queue_high);
}

bool Trigger::Releases(const Reading& reading) const {
  const bool drained = reading.queue && *reading.queue <= config_.release_queue;
  return drained || (reading.measure && *reading.measure < config_.threshold * config_.release_ratio);
}

uint8_t Trigger::Level(const Reading& reading, bool tripped) const {
  double ratio = std::max(last_ratio_, StallRatio(reading));
  if (config_.queue_high && reading.queue)
    ratio = std::max(ratio, static_cast<double>(*reading.queue) / config_.queue_high);
  if (tripped) ratio = std::max(ratio, 1.0);
  return static_cast<uint8_t>(std::clamp(ratio * SPW_LEVEL_THRESHOLD, 0.0, 255.0));
}

Verdict Trigger::Update(Time now, const Reading& reading) {
  const bool was_busy = busy_, trips = Trips(reading);
  if (reading.measure)
    last_ratio_ = *reading.measure / config_.threshold;
  else if (reading.queue == 0u)
    last_ratio_ = 0;

  if (config_.second_report_after.count() > 0) {
    if (pulse_end_ && now >= *pulse_end_) {
      pulse_end_.reset();
      busy_ = false;
    }
    if (!pulse_end_ && trips && !was_busy) {
      busy_ = true;
      pulse_end_ = now + config_.second_report_after;
    }
  } else if (trips) {
    busy_ = true;
  } else if (busy_ && Releases(reading)) {
    busy_ = false;
  }
  level_ = Level(reading, trips);
  return {busy_, busy_ != was_busy, level_};
}

std::optional<Verdict> Trigger::EndPulse(Time now) {
  if (!pulse_end_ || now < *pulse_end_) return std::nullopt;
  pulse_end_.reset();
  busy_ = false;
  return Verdict{false, true, level_};
}

}  // namespace spillway::agent

// SPDX-License-Identifier: Apache-2.0
#include "agent/meters/latency_window.h"

#include <algorithm>
#include <cmath>

namespace spillway::agent {
namespace {

// Weight of what came within `elapsed` against all before, for the time constant `window`.
double Weight(Duration elapsed, Duration window) {
  return 1 - std::exp(-static_cast<double>(elapsed.count()) / static_cast<double>(window.count()));
}

}  // namespace

Reading LatencyWindow::Update(Time now, const MeterTotals& totals) {
  const spw_meter_counts& counts = totals.counts;
  // The first look knows no window yet: what an earlier agent's program counted is not news.
  if (!last_) {
    last_ = totals;
    last_look_ = last_answer_ = last_measured_ = now;
  }
  const spw_meter_counts& before = last_->counts;

  Reading reading;
  reading.at = now;
  const uint64_t timed = counts.timed - before.timed;
  if (timed > 0) {
    const double mean =
        static_cast<double>(counts.latency_sum_ns - before.latency_sum_ns) / static_cast<double>(timed);
    // A time without measurements ages the old ones, so it counts as elapsed too.
    smoothed_ns_ = smoothed_ns_ == 0
                       ? mean
                       : smoothed_ns_ + (mean - smoothed_ns_) * Weight(now - last_measured_, window_);
    last_measured_ = now;
    reading.measure = smoothed_ns_;
  }
  reading.exceeded = counts.over_threshold != before.over_threshold;
  if (counts.completed != before.completed || totals.pending == 0) last_answer_ = now;
  reading.stall = std::min<Duration>(totals.oldest, now - last_answer_);
  reading.queue = totals.pending;
  reading.latency_us = static_cast<uint32_t>(std::min(smoothed_ns_ / 1000, 4294967295.0));
  reading.arrivals = counts.arrivals;
  reading.completed = counts.completed;
  reading.errors = counts.errors;
  reading.error_row = totals.error_row;
  reading.accepted = counts.accepted;
  reading.refused = counts.refused;
  reading.dismissed = counts.dismissed;
  reading.timed = counts.timed;
  reading.latency_sum_ns = counts.latency_sum_ns;
  reading.latency_min_ns = counts.latency_min_ns;

  const Duration elapsed = now - last_look_;
  if (elapsed.count() > 0) {
    const double rate =
        static_cast<double>(counts.arrivals - before.arrivals) * 1e9 / static_cast<double>(elapsed.count());
    rate_ += (rate - rate_) * Weight(elapsed, std::chrono::milliseconds(500));
    last_look_ = now;
  }
  given_up_ += totals.given_up;
  last_ = totals;
  return reading;
}

}  // namespace spillway::agent

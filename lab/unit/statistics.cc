// SPDX-License-Identifier: Apache-2.0
#include "statistics.h"

#include <cmath>
#include <nlohmann/json.hpp>

namespace spillway::unit {

namespace {

// Microseconds, to a nanosecond.
double Us(double ns) { return std::round(ns) / 1000; }

}  // namespace

nlohmann::ordered_json ToJson(const Statistics& s, const std::string& unit, std::size_t workers,
                              std::size_t waiting_now, double uptime_s) {
  const double sent = std::max(1.0, static_cast<double>(s.answered + s.send_failed + s.abandoned));
  const double capacity_ns = static_cast<double>(workers) * uptime_s * 1e9;
  return {{"unit", unit},
          {"uptime_s", std::round(uptime_s * 1000) / 1000},
          {"received", s.received},
          {"answered", s.answered},
          {"dropped", s.dropped},
          {"malformed", s.malformed},
          {"send_failed", s.send_failed},
          {"abandoned", s.abandoned},
          {"connections", s.connections},
          {"waiting", waiting_now},
          {"waiting_max", s.waiting_max},
          {"utilisation_pct", capacity_ns > 0 ? std::round(s.service_ns / capacity_ns * 1e4) / 100 : 0},
          {"service_mean_us", Us(s.service_ns / sent)},
          {"wait_mean_us", Us(s.wait_ns / sent)},
          {"answer_late_mean_us", Us(s.late_ns / sent)},
          {"answer_late_max_us", Us(s.late_max_ns)}};
}

}  // namespace spillway::unit

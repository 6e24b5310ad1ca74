// SPDX-License-Identifier: Apache-2.0
#include "station.h"

#include <algorithm>
#include <limits>

namespace spillway::unit {

Station::Station(std::size_t workers, std::size_t queue_limit)
    : queue_limit_(queue_limit), last_ns_(std::numeric_limits<std::int64_t>::min()) {
  for (std::size_t i = 0; i < workers; ++i) free_at_.push(last_ns_);
}

std::optional<Visit> Station::Arrive(std::int64_t now_ns, std::int64_t service_ns) {
  now_ns = std::max(now_ns, last_ns_);
  last_ns_ = now_ns;
  const std::int64_t start = std::max(now_ns, free_at_.top());
  if (start > now_ns) {
    if (Waiting(now_ns) >= queue_limit_) return std::nullopt;
    starts_.push(start);
  }
  free_at_.pop();
  free_at_.push(start + service_ns);
  return Visit{start, start + service_ns};
}

std::size_t Station::Waiting(std::int64_t now_ns) {
  while (!starts_.empty() && starts_.front() <= now_ns) starts_.pop();
  return starts_.size();
}

}  // namespace spillway::unit

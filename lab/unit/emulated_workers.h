// SPDX-License-Identifier: Apache-2.0
// Workers that burn no CPU: a request's wait and service are computed when it arrives, and its answer is
// due when they are over. Not thread-safe.
#pragma once

#include <chrono>
#include <optional>

#include "pending.h"
#include "service_time.h"
#include "station.h"
#include "workers.h"

namespace spillway::unit {

struct EmulatedSettings {
  std::size_t workers = 1;
  std::size_t queue_limit = 1024;  // requests that wait; the next is lost
  Distribution distribution = Distribution::kConstant;
  std::chrono::nanoseconds service{std::chrono::milliseconds(1)};  // mean per request, at cost 1
  double cv = 0;                                                   // of kLognormal
  std::chrono::nanoseconds extra_latency{0};  // added to every answer, occupying no worker
  std::uint64_t seed = 1;
};

class EmulatedWorkers : public Workers {
 public:
  explicit EmulatedWorkers(const EmulatedSettings& settings);

  std::size_t count() const override { return settings_.workers; }
  bool Take(Job job) override;
  std::optional<Job> TakeDone(std::int64_t now_ns) override { return pending_.TakeDue(now_ns); }
  std::optional<std::int64_t> NextDueNs() const override { return pending_.NextDueNs(); }
  int done_fd() const override { return -1; }
  std::size_t Waiting(std::int64_t now_ns) override { return station_.Waiting(now_ns); }

 private:
  const EmulatedSettings settings_;
  ServiceTime service_time_;
  Station station_;
  Pending pending_;
};

}  // namespace spillway::unit

// SPDX-License-Identifier: Apache-2.0
#include "emulated_workers.h"

#include <algorithm>
#include <utility>

namespace spillway::unit {

EmulatedWorkers::EmulatedWorkers(const EmulatedSettings& settings)
    : settings_(settings),
      service_time_(settings.distribution, settings.service, settings.cv, settings.seed),
      station_(settings.workers, settings.queue_limit) {}

bool EmulatedWorkers::Take(Job job) {
  // In double: a cost of 4 million times the mean must not overflow.
  const double cost = static_cast<double>(job.request.cost_milli) / 1000;
  job.service_ns =
      static_cast<std::int64_t>(std::min(static_cast<double>(service_time_.NextNs()) * cost, 1e15));
  const std::optional<Visit> visit = station_.Arrive(job.arrived_ns, job.service_ns);
  if (!visit) return false;
  job.wait_ns = visit->start_ns - job.arrived_ns;
  job.due_ns = visit->done_ns + settings_.extra_latency.count();
  pending_.Add(std::move(job));
  return true;
}

}  // namespace spillway::unit

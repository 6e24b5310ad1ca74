// SPDX-License-Identifier: Apache-2.0
// What an agent learns of its unit in simulated time: the agent's own learner, fed as its request meter
// would feed it. A plain value.
#pragma once

#include "agent/service_learner.h"
#include "sim/station.h"

namespace spillway::sim {

class Learning {
 public:
  // workers: the operator's hint (learn.workers of the agent's file).
  explicit Learning(uint32_t workers) : learner_(workers) {}

  void See(const Station::Sight& sight) {
    if (!sight.answered) {
      totals_.arrivals++;
      return;
    }
    totals_.completed++;
    totals_.timed++;
    totals_.histogram[spw_meter_histogram_index(spw_meter_step(static_cast<__u64>(sight.latency)))]++;
  }
  void Look(Time now, uint32_t queue) { learner_.Look(std::chrono::nanoseconds(now), queue, totals_); }
  agent::Learnt learnt() const { return learner_.learnt(); }

 private:
  agent::ServiceLearner learner_;
  spw_meter_counts totals_{};
};

}  // namespace spillway::sim

// SPDX-License-Identifier: Apache-2.0
// What an agent learns of its unit in simulated time: the agent's own learner, fed by the request meter's own
// accounting. A plain value.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <deque>
#include <optional>

#include "agent/learner/outcome_learner.h"
#include "agent/learner/ration.h"
#include "bpf/meter_backlog.h"
#include "sim/station.h"

namespace spillway::sim {

class Learning {
 public:
  // workers: the operator's hint (learn.workers of the agent's file). told_within: as Ration's.
  Learning(uint32_t workers, std::chrono::nanoseconds told_within)
      : learner_(workers), ration_(told_within) {}

  void See(const Station::Sight& sight) {
    if (!sight.answered) {
      totals_.arrivals++;
      open_.push_back({sight.at, spw_meter_mark_request(&clocks_, &totals_, Clock(sight.at))});
      return;
    }
    const Time came = sight.at - sight.latency;
    const auto request =
        std::find_if(open_.begin(), open_.end(), [&](const Open& o) { return o.came == came; });
    if (request == open_.end()) return;
    const uint32_t start = spw_meter_step(Clock(came)), now = spw_meter_step(Clock(sight.at));
    totals_.completed++;
    totals_.timed++;
    totals_.latency_sum_ns += static_cast<__u64>(sight.latency);
    totals_.histogram[spw_meter_histogram_index(now - start)]++;
    spw_meter_add_outcome(&totals_, request->marks, start, now);
    open_.erase(request);
  }
  // quota: of the unit's control group, where its agent reads it.
  void Look(Time now, uint32_t queue, const std::optional<agent::QuotaReading>& quota) {
    const std::chrono::nanoseconds at(Clock(now));
    if (quota && ration_.Due(at))
      ration_.Learn(at, *quota, totals_.arrivals, totals_.completed);
    else
      ration_.Pass(at);
    learner_.Look(at, queue, totals_, 1, clocks_, ration_.rationed());
  }
  uint64_t arrivals() const { return totals_.arrivals; }
  agent::Learnt learnt() const { return learner_.learnt(); }

 private:
  struct Open {
    Time came;
    uint32_t marks;
  };
  // The meter's clocks start at 1 s, so that 0 keeps its meaning, "never".
  static uint64_t Clock(Time now) { return static_cast<uint64_t>(now) + 1'000'000'000; }

  agent::OutcomeLearner learner_;
  agent::Ration ration_;
  spw_meter_clocks clocks_{};
  spw_meter_counts totals_{};
  std::deque<Open> open_;
};

}  // namespace spillway::sim

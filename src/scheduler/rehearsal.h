// SPDX-License-Identifier: Apache-2.0
// Which prices to go by, found out by rehearsal: with each, an empty cluster of the same nodes is filled with
// jobs drawn from those that are expected. Pure.
//
// The prices of a linear program know averages. What they leave out (host memory, the order of arrival, jobs
// that are refused while smaller ones still fit) is in the rehearsal.
#pragma once

#include <stop_token>
#include <vector>

#include "scheduler/fill_value.h"
#include "scheduler/fragmentation.h"

namespace spillway::scheduler {

// The look-ahead under whose prices most is allocated when the jobs that came have asked for kRehearsedPct of
// the cluster's GPUs; rule in-proportion unless another is better by kClearly points. `mix`: of `expected`.
// Once `stop` is asked for, it ends soon, with prices that are of no use.
[[nodiscard]] FillValue BestFillValue(const std::vector<Job>& expected, const JobMix& mix,
                                      const std::vector<Node>& nodes, size_t models,
                                      const std::vector<double>& waiting = {},
                                      const std::stop_token& stop = {});
inline constexpr int kRehearsedPct = 130;
inline constexpr double kClearly = 0.25;

}  // namespace spillway::scheduler

// SPDX-License-Identifier: Apache-2.0
// The distribution of SCD, apart for those who check it.
#pragma once

#include <span>
#include <vector>

namespace spillway::sim {

struct ScdQueue {
  double length = 0, rate = 1;  // requests; relative service rate
};

// `arrivals` requests, one at least, come before anyone learns of another: the shares by which each draws its
// queue, independently, so that the expected sum of (queue - rate * level)^2 / rate after them is least;
// `level` is where equal queues per rate would stand. Pure.
[[nodiscard]] std::vector<double> ScdShares(std::span<const ScdQueue> queues, double arrivals);

}  // namespace spillway::sim

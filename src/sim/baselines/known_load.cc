// SPDX-License-Identifier: Apache-2.0
#include "sim/baselines/known_load.h"

#include <algorithm>

namespace spillway::sim {

Time UnitHistory::LatencyAt(uint32_t rif) const {
  const size_t known = std::min<uint64_t>(answered_, kRecent);
  std::array<Time, kRecent> nearest;
  size_t count = 0;
  uint32_t least = UINT32_MAX;
  for (size_t i = 0; i < known; i++) {
    const uint32_t found = recent_[i].found;
    const uint32_t distance = found > rif ? found - rif : rif - found;
    if (distance > least) continue;
    if (distance < least) count = 0, least = distance;
    nearest[count++] = recent_[i].latency;
  }
  if (count == 0) return 0;
  const auto middle = nearest.begin() + static_cast<std::ptrdiff_t>((count - 1) / 2);
  std::nth_element(nearest.begin(), middle, nearest.begin() + static_cast<std::ptrdiff_t>(count));
  return *middle;
}

}  // namespace spillway::sim

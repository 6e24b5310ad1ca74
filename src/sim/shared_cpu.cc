// SPDX-License-Identifier: Apache-2.0
#include "sim/shared_cpu.h"

#include <algorithm>
#include <limits>

namespace spillway::sim {

SharedCpus::Gap SharedCpus::FirstGap(int64_t time) const {
  Gap first{0, std::numeric_limits<int64_t>::max(), 0};
  for (uint32_t cpu = 0; cpu < busy_.size(); cpu++) {
    Gap gap{cpu, time, std::numeric_limits<int64_t>::max()};
    auto next = busy_[cpu].upper_bound(time);
    if (next != busy_[cpu].begin()) gap.begin = std::max(time, std::prev(next)->second);
    if (next != busy_[cpu].end()) gap.end = next->first;
    if (gap.begin < first.begin) first = gap;
  }
  return first;
}

void SharedCpus::Take(uint32_t cpu, int64_t begin, int64_t end) {
  auto& busy = busy_[cpu];
  // Neighbours are joined, so that the next gap is never empty.
  const auto next = busy.upper_bound(begin);
  if (next != busy.end() && next->first == end) {
    end = next->second;
    busy.erase(next);
  }
  const auto after = busy.upper_bound(begin);
  if (after != busy.begin() && std::prev(after)->second == begin)
    std::prev(after)->second = end;
  else
    busy[begin] = end;
}

void SharedCpus::Forget(int64_t time) {
  for (auto& busy : busy_)
    while (!busy.empty() && busy.begin()->second <= time) busy.erase(busy.begin());
}

}  // namespace spillway::sim

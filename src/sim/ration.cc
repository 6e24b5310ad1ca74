// SPDX-License-Identifier: Apache-2.0
#include "sim/ration.h"

#include <algorithm>

namespace spillway::sim {

int64_t RationedCpu::Finish(int64_t start, int64_t work) {
  while (work > 0) {
    const int64_t index = start / period_, end = (index + 1) * period_;
    if (index != current_) current_ = index, used_ = 0;
    const int64_t step = std::min({work, quota_ - used_, end - start});
    if (step <= 0) {
      start = end;
      continue;
    }
    used_ += step;
    work -= step;
    start += step;
  }
  return start;
}

int64_t MeanFinish(const Ration& ration, int64_t work) {
  constexpr int kMoments = 256;  // spread evenly over a period
  const int64_t period = ration.period.count();
  int64_t sum = 0;
  for (int i = 0; i < kMoments; i++) {
    const int64_t begin = period * i / kMoments;
    sum += RationedCpu(ration).Finish(begin, work) - begin;
  }
  return sum / kMoments;
}

}  // namespace spillway::sim

// SPDX-License-Identifier: Apache-2.0
#include "lab/gpus/slice_stays.h"

#include <algorithm>
#include <utility>

namespace spillway::lab {
namespace {

constexpr double kClose = 1e-9;

}  // namespace

void SliceStays::Look(const std::vector<SliceNow>& instances, double time) {
  std::map<uint64_t, size_t> present;
  for (const SliceNow& one : instances)
    if (const auto known = present_.find(one.id); known != present_.end()) {
      present[one.id] = known->second;
      stays_[known->second].to = time;
    }
  // After those that stay: who has just gone has left its room.
  for (const SliceNow& one : instances) {
    if (present.contains(one.id)) continue;
    stays_.push_back({one.gpu, one.model, one.share, time, time, RoomBeside(present, one)});
    present[one.id] = stays_.size() - 1;
  }
  present_ = std::move(present);
}

// The lowest gap that is large enough; 0 where there is none.
double SliceStays::RoomBeside(const std::map<uint64_t, size_t>& present, const SliceNow& one) const {
  std::vector<std::pair<double, double>> taken;
  for (const auto& [id, at] : present)
    if (const SliceStay& stay = stays_[at]; stay.gpu == one.gpu)
      taken.emplace_back(stay.low, stay.low + stay.share);
  std::sort(taken.begin(), taken.end());
  double low = 0;
  for (const auto& [from, to] : taken) {
    if (low + one.share <= from + kClose) break;
    low = std::max(low, to);
  }
  return low + one.share <= 1 + kClose ? low : 0;
}

}  // namespace spillway::lab

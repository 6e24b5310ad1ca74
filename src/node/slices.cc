// SPDX-License-Identifier: Apache-2.0
#include "node/slices.h"

#include <fmt/format.h>

#include <algorithm>

#include "scheduler/job.h"

namespace spillway::node {
namespace {

using scheduler::SlicePlace;
using scheduler::WantedInstance;

class EmulatedSlices : public Slices {
 public:
  explicit EmulatedSlices(const std::vector<scheduler::Gpu>& gpus) : gpus_(gpus) {}

  Result<void> Make(const WantedInstance& instance) override {
    const SlicePlace& place = instance.place;
    const auto gpu =
        std::find_if(gpus_.begin(), gpus_.end(), [&](const auto& one) { return one.id == place.gpu; });
    if (gpu == gpus_.end())
      return Fail(ErrorCode::kUnavailable, fmt::format("GPU {} does not exist", place.gpu));
    if (!CanHave(*gpu, place))
      return Fail(ErrorCode::kUnavailable, fmt::format("GPU {}: it has no such slice", place.gpu));
    int used = place.milli;
    for (const auto& [id, other] : places_) {
      if (other.gpu != place.gpu || id == instance.instance) continue;
      used += other.milli;
      if (other.profile && place.profile && Overlap(other, place))
        return Fail(ErrorCode::kUnavailable,
                    fmt::format("GPU {}: another instance has these slices", place.gpu));
    }
    if (used > scheduler::kWholeGpu)
      return Fail(ErrorCode::kUnavailable,
                  fmt::format("GPU {}: requested share exceeds what is free", place.gpu));
    places_[instance.instance] = place;
    return {};
  }
  void Drop(const WantedInstance& instance) override { places_.erase(instance.instance); }
  void Restore(const WantedInstance& instance) override { places_[instance.instance] = instance.place; }

 private:
  static bool CanHave(const scheduler::Gpu& gpu, const SlicePlace& place) {
    if (place.milli < 1 || place.milli > scheduler::kWholeGpu) return false;
    if (!place.profile) return true;
    const std::vector<int>& starts = ShapeOf(*place.profile).starts;
    return gpu.can_divide && std::find(starts.begin(), starts.end(), place.start) != starts.end();
  }
  static bool Overlap(const SlicePlace& a, const SlicePlace& b) {
    return a.start < b.start + ShapeOf(*b.profile).memory && b.start < a.start + ShapeOf(*a.profile).memory;
  }

  std::vector<scheduler::Gpu> gpus_;
  std::map<uint64_t, SlicePlace> places_;
};

}  // namespace

std::unique_ptr<Slices> MakeEmulatedSlices(const std::vector<scheduler::Gpu>& gpus) {
  return std::make_unique<EmulatedSlices>(gpus);
}

}  // namespace spillway::node

// SPDX-License-Identifier: Apache-2.0
#include "node/slices.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

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
  Result<void> Drop(const WantedInstance& instance) override {
    places_.erase(instance.instance);
    return {};
  }
  Result<std::optional<SliceDevice>> DeviceOf(const WantedInstance&) override { return std::nullopt; }
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

// What fits is known as of emulated ones, before the GPU is asked.
class GpuSlices : public Slices {
 public:
  GpuSlices(const std::vector<scheduler::Gpu>& gpus, std::map<std::string, std::string> devices,
            std::unique_ptr<Mig> mig)
      : book_(gpus), gpus_(gpus), devices_(std::move(devices)), mig_(std::move(mig)) {}

  Result<void> Make(const WantedInstance& instance) override {
    const SlicePlace& place = instance.place;
    if (auto fits = book_.Make(instance); !fits) return fits;
    const auto gpu =
        std::find_if(gpus_.begin(), gpus_.end(), [&](const auto& one) { return one.id == place.gpu; });
    if (place.profile) {
      if (auto made = mig_->Make(MigPlaceOf(place)); !made) {
        (void)book_.Drop(instance);
        return Fail(made.error().code, fmt::format("GPU {}: {}", place.gpu, made.error().message));
      }
    } else if (gpu->can_divide) {
      (void)book_.Drop(instance);
      return Fail(
          ErrorCode::kUnavailable,
          fmt::format("GPU {}: it is divided by MIG, and has no shares (gateway's isolation is not fraction)",
                      place.gpu));
    }
    return {};
  }
  Result<void> Drop(const WantedInstance& instance) override {
    if (instance.place.profile && devices_.count(instance.place.gpu) != 0)
      if (auto gone = mig_->Drop(MigPlaceOf(instance.place)); !gone)
        return Fail(gone.error().code, fmt::format("GPU {}: {}", instance.place.gpu, gone.error().message));
    return book_.Drop(instance);
  }
  void Restore(const WantedInstance& instance) override { book_.Restore(instance); }
  Result<std::optional<SliceDevice>> DeviceOf(const WantedInstance& instance) override {
    const SlicePlace& place = instance.place;
    const auto device = devices_.find(place.gpu);
    if (device == devices_.end())
      return Fail(ErrorCode::kUnavailable, fmt::format("GPU {} does not exist", place.gpu));
    if (!place.profile)
      return SliceDevice{device->second, std::max(1, place.milli * 100 / scheduler::kWholeGpu)};
    auto uuid = mig_->Find(MigPlaceOf(place));
    if (!uuid) return tl::make_unexpected(uuid.error());
    if (!*uuid)
      return Fail(ErrorCode::kUnavailable, fmt::format("GPU {}: its MIG instance is gone", place.gpu));
    return SliceDevice{**uuid, 100};
  }

 private:
  MigPlace MigPlaceOf(const SlicePlace& place) const {
    return {devices_.at(place.gpu), *place.profile, place.start};
  }

  EmulatedSlices book_;
  std::vector<scheduler::Gpu> gpus_;
  std::map<std::string, std::string> devices_;
  std::unique_ptr<Mig> mig_;
};

}  // namespace

std::unique_ptr<Slices> MakeGpuSlices(const std::vector<scheduler::Gpu>& gpus,
                                      std::map<std::string, std::string> devices, std::unique_ptr<Mig> mig) {
  return std::make_unique<GpuSlices>(gpus, std::move(devices), std::move(mig));
}

std::unique_ptr<Slices> MakeEmulatedSlices(const std::vector<scheduler::Gpu>& gpus) {
  return std::make_unique<EmulatedSlices>(gpus);
}

}  // namespace spillway::node

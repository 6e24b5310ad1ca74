// SPDX-License-Identifier: Apache-2.0
#include "node/slices.h"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>
#include <utility>

#include "scheduler/job.h"

namespace spillway::node {
namespace {

using scheduler::SlicePlace;
using scheduler::WantedInstance;

class EmulatedSlices : public Slices {
 public:
  explicit EmulatedSlices(const std::vector<scheduler::Gpu>& gpus) : gpus_(gpus) {}

  Result<std::string> Make(const WantedInstance& instance) override {
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
    return std::string();
  }
  Result<void> Drop(const WantedInstance& instance, const std::string&) override {
    places_.erase(instance.instance);
    return {};
  }
  Result<std::optional<SliceDevice>> DeviceOf(const WantedInstance&, const std::string&) override {
    return std::nullopt;
  }
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

// Which MIG instance a slice is, as a text: since which boot, of which GPU, and its own UUID, which a driver
// may give again to whatever is made in its place.
struct MigMark {
  std::string boot, gpu, uuid;

  [[nodiscard]] std::string Text() const { return boot + " " + gpu + " " + uuid; }
  static MigMark Of(const std::string& text) {
    MigMark mark;
    std::istringstream(text) >> mark.boot >> mark.gpu >> mark.uuid;
    return mark;
  }
};

// What fits is known as of emulated ones, before the GPU is asked.
class GpuSlices : public Slices {
 public:
  GpuSlices(const std::vector<scheduler::Gpu>& gpus, std::map<std::string, std::string> devices,
            std::unique_ptr<Mig> mig, std::string boot)
      : book_(gpus),
        gpus_(gpus),
        devices_(std::move(devices)),
        mig_(std::move(mig)),
        boot_(std::move(boot)) {}

  Result<std::string> Make(const WantedInstance& instance) override {
    const SlicePlace& place = instance.place;
    if (auto fits = book_.Make(instance); !fits) return fits;
    const auto refuse = [&](const std::string& why) {
      (void)book_.Drop(instance, {});
      return Fail(ErrorCode::kUnavailable, fmt::format("GPU {}: {}", place.gpu, why));
    };
    const auto gpu =
        std::find_if(gpus_.begin(), gpus_.end(), [&](const auto& one) { return one.id == place.gpu; });
    if (!place.profile && gpu->can_divide)
      return refuse("it is divided by MIG, and has no shares (gateway's isolation is not fraction)");
    if (!place.profile) return std::string();
    const std::string& device = devices_.at(place.gpu);
    const auto made = mig_->Make({device, *place.profile, place.start});
    if (!made) return refuse(made.error().message);
    return MigMark{boot_, device, *made}.Text();
  }
  Result<void> Drop(const WantedInstance& instance, const std::string& mark) override {
    if (auto there = Ours(instance, mark); !there) {
      return Fail(there.error().code, fmt::format("GPU {}: {}", instance.place.gpu, there.error().message));
    } else if (*there) {
      const MigPlace place{MigMark::Of(mark).gpu, *instance.place.profile, instance.place.start};
      if (auto gone = mig_->Drop(place); !gone)
        return Fail(gone.error().code, fmt::format("GPU {}: {}", instance.place.gpu, gone.error().message));
    }
    return book_.Drop(instance, mark);
  }
  void Restore(const WantedInstance& instance) override { book_.Restore(instance); }
  Result<std::optional<SliceDevice>> DeviceOf(const WantedInstance& instance,
                                              const std::string& mark) override {
    const SlicePlace& place = instance.place;
    if (place.profile) {
      const auto there = Ours(instance, mark);
      if (!there) return tl::make_unexpected(there.error());
      if (!*there)
        return Fail(ErrorCode::kUnavailable, fmt::format("GPU {}: its MIG instance is gone", place.gpu));
      return SliceDevice{MigMark::Of(mark).uuid, 100};
    }
    const auto device = devices_.find(place.gpu);
    if (device == devices_.end())
      return Fail(ErrorCode::kUnavailable, fmt::format("GPU {} does not exist", place.gpu));
    return SliceDevice{device->second, std::max(1, place.milli * 100 / scheduler::kWholeGpu)};
  }

 private:
  // Whether what is at its place is what was made for it. Not of another boot, nor where no GPU is divided
  // any more.
  Result<bool> Ours(const WantedInstance& instance, const std::string& text) {
    const MigMark mark = MigMark::Of(text);
    if (!instance.place.profile || !mig_ || mark.uuid.empty() || mark.boot != boot_) return false;
    const auto uuid = mig_->Find({mark.gpu, *instance.place.profile, instance.place.start});
    if (!uuid) return tl::make_unexpected(uuid.error());
    return *uuid && **uuid == mark.uuid;
  }

  EmulatedSlices book_;
  std::vector<scheduler::Gpu> gpus_;
  std::map<std::string, std::string> devices_;
  std::unique_ptr<Mig> mig_;
  std::string boot_;
};

}  // namespace

std::unique_ptr<Slices> MakeGpuSlices(const std::vector<scheduler::Gpu>& gpus,
                                      std::map<std::string, std::string> devices, std::unique_ptr<Mig> mig,
                                      std::string boot) {
  return std::make_unique<GpuSlices>(gpus, std::move(devices), std::move(mig), std::move(boot));
}

std::unique_ptr<Slices> MakeEmulatedSlices(const std::vector<scheduler::Gpu>& gpus) {
  return std::make_unique<EmulatedSlices>(gpus);
}

}  // namespace spillway::node

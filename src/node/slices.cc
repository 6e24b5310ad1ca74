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

  Result<std::string> Make(const WantedInstance& instance, const Remember&) override {
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
  Result<void> Drop(const WantedInstance& instance, const std::string&, const Remember&) override {
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

// Which MIG instance a slice is, as a text: since which boot, of which GPU, its GPU instance's id and its own
// UUID, both of which a driver may give again to whatever is made in its place. It is written thrice, each
// before the next is begun: without id, with it, with the UUID. So a program that was killed in between has
// said what is its: a GPU instance of that id; without one, none that has a compute instance. Before it is
// ended, the mark says so: what then has no compute instance any more is the rest of it.
struct MigMark {
  std::string boot, gpu, uuid = kNone;
  std::string id = kNone;
  bool is_ending = false;

  static constexpr const char* kNone = "-";
  [[nodiscard]] std::string Text() const {
    return fmt::format("{} {} {} {}{}", boot, gpu, uuid, id, is_ending ? " ending" : "");
  }
  static MigMark Of(const std::string& text) {
    MigMark mark;
    std::string ending;
    std::istringstream(text) >> mark.boot >> mark.gpu >> mark.uuid >> mark.id >> ending;
    mark.is_ending = ending == "ending";
    return mark;
  }
};

// What fits is known as of emulated ones, before the GPU is asked.
class GpuSlices : public Slices {
 public:
  GpuSlices(const std::vector<scheduler::Gpu>& gpus, std::map<std::string, std::string> devices,
            std::unique_ptr<Mig> mig, std::unique_ptr<GpuWatch> watch, std::string boot)
      : book_(gpus),
        gpus_(gpus),
        devices_(std::move(devices)),
        mig_(std::move(mig)),
        watch_(std::move(watch)),
        boot_(std::move(boot)) {}

  Result<std::string> Make(const WantedInstance& instance, const Remember& remember) override {
    const SlicePlace& place = instance.place;
    if (auto fits = book_.Make(instance, remember); !fits) return fits;
    const auto refuse = [&](const std::string& why) {
      (void)book_.Drop(instance, {}, remember);
      return Fail(ErrorCode::kUnavailable, fmt::format("GPU {}: {}", place.gpu, why));
    };
    if (const auto lost = NotLost(place.gpu); !lost) return refuse(lost.error().message);
    const auto gpu =
        std::find_if(gpus_.begin(), gpus_.end(), [&](const auto& one) { return one.id == place.gpu; });
    if (!place.profile && gpu->can_divide)
      return refuse(
          "MIG is enabled on it, so shares need `isolation: fraction` in the gateway's configuration");
    if (!place.profile) return std::string();
    const std::string& device = devices_.at(place.gpu);
    MigMark mark{boot_, device};
    if (auto kept = remember(mark.Text()); !kept) return refuse(kept.error().message);
    const auto made = mig_->Make({device, *place.profile, place.start}, [&](unsigned id) {
      mark.id = std::to_string(id);
      return remember(mark.Text());
    });
    if (made) {
      mark.uuid = *made;
      return mark.Text();
    }
    // Without an id nothing was made, unless the call was given up: then the GPU does not answer yet.
    const bool made_nothing =
        mark.id == MigMark::kNone && mig_->Find({device, *place.profile, place.start}).has_value();
    const auto left = made_nothing ? std::nullopt : Ours(instance, mark);
    if (!left || *left)
      return Fail(ErrorCode::kUnavailable, fmt::format("GPU {}: {}", place.gpu, made.error().message));
    (void)remember({});
    return refuse(made.error().message);
  }
  Result<void> Drop(const WantedInstance& instance, const std::string& text,
                    const Remember& remember) override {
    const auto failed = [&](const Error& why) {
      return Fail(why.code, fmt::format("GPU {}: {}", instance.place.gpu, why.message));
    };
    MigMark mark = MigMark::Of(text);
    const auto there = Ours(instance, mark);
    if (!there) return failed(there.error());
    if (*there) {
      mark.id = std::to_string(**there);
      mark.is_ending = true;
      if (auto kept = mark.Text() == text ? Result<void>() : remember(mark.Text()); !kept)
        return failed(kept.error());
      if (auto gone = mig_->Drop({mark.gpu, *instance.place.profile, instance.place.start}, **there); !gone)
        return failed(gone.error());
    }
    return book_.Drop(instance, text, remember);
  }
  void Restore(const WantedInstance& instance) override { book_.Restore(instance); }
  std::map<std::string, std::string> Lost() const override {
    return watch_ ? watch_->Lost() : Slices::Lost();
  }
  Result<std::optional<SliceDevice>> DeviceOf(const WantedInstance& instance,
                                              const std::string& mark) override {
    const SlicePlace& place = instance.place;
    if (place.profile) {
      const MigMark known = MigMark::Of(mark);
      const auto there = Ours(instance, known);
      if (!there) return tl::make_unexpected(there.error());
      if (known.uuid == MigMark::kNone && known.boot == boot_)
        return Fail(ErrorCode::kUnavailable,
                    fmt::format("GPU {}: the node agent exited while making its MIG instance", place.gpu));
      if (!*there || known.is_ending)
        return Fail(ErrorCode::kUnavailable, fmt::format("GPU {}: its MIG instance is gone", place.gpu));
      return SliceDevice{known.uuid, 100};
    }
    const auto device = devices_.find(place.gpu);
    if (device == devices_.end())
      return Fail(ErrorCode::kUnavailable, fmt::format("GPU {} does not exist", place.gpu));
    return SliceDevice{device->second, std::max(1, place.milli * 100 / scheduler::kWholeGpu)};
  }

 private:
  // What is asked of a GPU that hangs would not come back.
  Result<void> NotLost(const std::string& gpu) const {
    const auto lost = Lost();
    const auto why = lost.find(gpu);
    if (why == lost.end()) return {};
    return Fail(ErrorCode::kUnavailable, why->second);
  }

  // The id of what is at its place, if that is what was made for it; nullopt: it is not, nor of another boot,
  // nor where no GPU is divided any more. An error also where nobody can tell: no compute instance is in it,
  // and either no id was written yet, or the compute instance was ended by somebody else.
  Result<std::optional<unsigned>> Ours(const WantedInstance& instance, const MigMark& mark) {
    if (!instance.place.profile || !mig_ || mark.gpu.empty() || mark.boot != boot_) return std::nullopt;
    if (auto there = NotLost(instance.place.gpu); !there) return tl::make_unexpected(there.error());
    const auto found = mig_->Find({mark.gpu, *instance.place.profile, instance.place.start});
    if (!found) return tl::make_unexpected(found.error());
    if (!*found) return std::nullopt;
    const unsigned id = (*found)->id;
    const bool has_id = mark.id == std::to_string(id), has_uuid = mark.uuid != MigMark::kNone;
    if (has_uuid && (*found)->uuid) return *(*found)->uuid == mark.uuid ? std::optional(id) : std::nullopt;
    if (has_id && (!has_uuid || mark.is_ending)) return id;
    const bool is_unclear = has_id || (mark.id == MigMark::kNone && !(*found)->uuid);
    if (!is_unclear) return std::nullopt;
    return Fail(
        ErrorCode::kUnavailable,
        fmt::format("GPU instance {} occupies the slice, has no compute instance and may not be Spillway's: "
                    "if nothing else uses it, run nvidia-smi mig -dgi -gi {}",
                    id, id));
  }

  EmulatedSlices book_;
  std::vector<scheduler::Gpu> gpus_;
  std::map<std::string, std::string> devices_;
  std::unique_ptr<Mig> mig_;
  std::unique_ptr<GpuWatch> watch_;
  std::string boot_;
};

}  // namespace

std::unique_ptr<Slices> MakeGpuSlices(const std::vector<scheduler::Gpu>& gpus,
                                      std::map<std::string, std::string> devices, std::unique_ptr<Mig> mig,
                                      std::unique_ptr<GpuWatch> watch, std::string boot) {
  return std::make_unique<GpuSlices>(gpus, std::move(devices), std::move(mig), std::move(watch),
                                     std::move(boot));
}

std::unique_ptr<Slices> MakeEmulatedSlices(const std::vector<scheduler::Gpu>& gpus) {
  return std::make_unique<EmulatedSlices>(gpus);
}

}  // namespace spillway::node

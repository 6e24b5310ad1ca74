// SPDX-License-Identifier: Apache-2.0
#include "node/mig.h"

#include <fmt/format.h>

#include <array>
#include <map>
#include <utility>
#include <vector>

namespace spillway::node {
namespace {

using gateway::NvmlDevice;
using gateway::NvmlLibrary;

// What we use of nvml.h, by its names there.
struct GpuInstance;      // nvmlGpuInstance_t points to one
struct ComputeInstance;  // nvmlComputeInstance_t
struct Placement {       // nvmlGpuInstancePlacement_t: in memory slices
  unsigned start, size;
};
struct GpuProfile {  // nvmlGpuInstanceProfileInfo_t
  unsigned id, is_p2p, slices, instances, multiprocessors, copy, decoders, encoders, jpeg, ofa;
  unsigned long long memory_mb;
};
struct GpuInstanceInfo {  // nvmlGpuInstanceInfo_t
  NvmlDevice* device;
  unsigned id, profile_id;
  Placement placement;
};
struct ComputeProfile {  // nvmlComputeInstanceProfileInfo_t
  unsigned id, slices, instances, multiprocessors, copy, decoders, encoders, jpeg, ofa;
};
constexpr int kSuccess = NvmlLibrary::kSuccess;
constexpr unsigned kAllEngines = 0;     // NVML_COMPUTE_INSTANCE_ENGINE_PROFILE_SHARED
constexpr unsigned kMostInstances = 8;  // of a GPU: one a memory slice

// NVML_GPU_INSTANCE_PROFILE_{1,1 REV2,2,3,4,7}_SLICE and NVML_COMPUTE_INSTANCE_PROFILE_{1,1,2,3,4,7}_SLICE.
struct Number {
  unsigned gpu, compute;
};
constexpr std::array<Number, scheduler::kProfiles> kNumbers = {
    {{0, 0}, {9, 0}, {1, 1}, {2, 2}, {3, 3}, {4, 4}}};

class NvmlMig : public Mig {
 public:
  explicit NvmlMig(NvmlLibrary library) : library_(std::move(library)) {}

  Result<void> LookAround() {
    auto gpus = library_.Gpus();
    if (!gpus) return tl::make_unexpected(gpus.error());
    gpus_ = std::move(*gpus);
    return {};
  }

  bool FindAll() {
    return library_.Find(GetUuid, "nvmlDeviceGetUUID") &&
           library_.Find(GetMostDevices, "nvmlDeviceGetMaxMigDeviceCount") &&
           library_.Find(GetDevice, "nvmlDeviceGetMigDeviceHandleByIndex") &&
           library_.Find(GetInstanceId, "nvmlDeviceGetGpuInstanceId") &&
           library_.Find(GetGpuProfile, "nvmlDeviceGetGpuInstanceProfileInfo") &&
           library_.Find(CreateGpuInstance, "nvmlDeviceCreateGpuInstanceWithPlacement") &&
           library_.Find(GetGpuInstances, "nvmlDeviceGetGpuInstances") &&
           library_.Find(GetGpuInstanceInfo, "nvmlGpuInstanceGetInfo") &&
           library_.Find(DestroyGpuInstance, "nvmlGpuInstanceDestroy") &&
           library_.Find(GetComputeProfile, "nvmlGpuInstanceGetComputeInstanceProfileInfo") &&
           library_.Find(CreateComputeInstance, "nvmlGpuInstanceCreateComputeInstance") &&
           library_.Find(GetComputeInstances, "nvmlGpuInstanceGetComputeInstances") &&
           library_.Find(DestroyComputeInstance, "nvmlComputeInstanceDestroy");
  }

  Result<std::string> Make(const MigPlace& place,
                           const std::function<Result<void>(unsigned)>& remember) override {
    const auto of = Lookup(place);
    if (!of) return tl::make_unexpected(of.error());
    const auto& shape = ShapeOf(place.profile);
    const Placement where{static_cast<unsigned>(place.start), static_cast<unsigned>(shape.memory)};
    GpuInstance* instance = nullptr;
    const std::string what = fmt::format("{} at slice {}", shape.name, place.start);
    if (auto made = library_.Check(CreateGpuInstance(of->device, of->profile, &where, &instance), what);
        !made)
      return tl::make_unexpected(made.error());
    auto uuid = MakeCompute(of->device, instance, place, what, remember);
    if (uuid || DestroyGpuInstance(instance) == kSuccess) return uuid;
    return Fail(ErrorCode::kUnavailable, uuid.error().message + "; its GPU instance could not be destroyed");
  }

  Result<std::optional<Instance>> Find(const MigPlace& place) override {
    const auto of = Lookup(place);
    if (!of) return tl::make_unexpected(of.error());
    const auto instance = InstanceAt(*of, place);
    if (!instance) return tl::make_unexpected(instance.error());
    if (*instance == nullptr) return std::nullopt;
    GpuInstanceInfo info{};
    if (auto got = library_.Check(GetGpuInstanceInfo(*instance, &info), "a GPU instance"); !got)
      return tl::make_unexpected(got.error());
    auto uuid = UuidOf(of->device, info.id);
    if (!uuid) return tl::make_unexpected(uuid.error());
    return Instance{info.id, std::move(*uuid)};
  }

  Result<void> Drop(const MigPlace& place, unsigned id) override {
    const auto of = Lookup(place);
    if (!of) return tl::make_unexpected(of.error());
    const auto instance = InstanceAt(*of, place);
    if (!instance) return tl::make_unexpected(instance.error());
    GpuInstanceInfo info{};
    if (*instance == nullptr || GetGpuInstanceInfo(*instance, &info) != kSuccess || info.id != id) return {};
    ComputeProfile profile{};
    std::array<ComputeInstance*, kMostInstances> parts{};
    unsigned count = parts.size();
    const int known = GetComputeProfile(*instance, kNumbers[static_cast<size_t>(place.profile)].compute,
                                        kAllEngines, &profile);
    if (known != kSuccess || GetComputeInstances(*instance, profile.id, parts.data(), &count) != kSuccess)
      count = 0;
    for (unsigned i = 0; i < count; i++)
      if (auto gone = library_.Check(DestroyComputeInstance(parts[i]), "end a compute instance"); !gone)
        return gone;
    return library_.Check(DestroyGpuInstance(*instance), "end a GPU instance");
  }

 private:
  struct Known {
    NvmlDevice* device = nullptr;
    unsigned profile = 0;  // its number on this GPU
  };

  Result<Known> Lookup(const MigPlace& place) const {
    auto device = gpus_.find(place.gpu);
    std::map<std::string, NvmlDevice*> now;
    if (device == gpus_.end()) {
      auto looked = library_.Gpus();
      if (!looked) return tl::make_unexpected(looked.error());
      now = std::move(*looked);
      device = now.find(place.gpu);
      if (device == now.end())
        return Fail(ErrorCode::kUnavailable, fmt::format("GPU {} does not answer", place.gpu));
    }
    Known known{device->second};
    GpuProfile profile{};
    const int result =
        GetGpuProfile(known.device, kNumbers[static_cast<size_t>(place.profile)].gpu, &profile);
    if (auto got = library_.Check(result, fmt::format("profile {}", ShapeOf(place.profile).name)); !got)
      return tl::make_unexpected(got.error());
    known.profile = profile.id;
    return known;
  }

  Result<GpuInstance*> InstanceAt(const Known& of, const MigPlace& place) const {
    std::array<GpuInstance*, kMostInstances> all{};
    unsigned count = all.size();
    if (auto got =
            library_.Check(GetGpuInstances(of.device, of.profile, all.data(), &count), "GPU instances");
        !got)
      return tl::make_unexpected(got.error());
    for (unsigned i = 0; i < count; i++) {
      GpuInstanceInfo info{};
      if (GetGpuInstanceInfo(all[i], &info) == kSuccess &&
          info.placement.start == static_cast<unsigned>(place.start))
        return all[i];
    }
    return nullptr;
  }

  Result<std::string> MakeCompute(NvmlDevice* device, GpuInstance* instance, const MigPlace& place,
                                  const std::string& what,
                                  const std::function<Result<void>(unsigned)>& remember) const {
    GpuInstanceInfo info{};
    ComputeProfile profile{};
    ComputeInstance* part = nullptr;
    const auto number = kNumbers[static_cast<size_t>(place.profile)].compute;
    for (const int result :
         {GetGpuInstanceInfo(instance, &info), GetComputeProfile(instance, number, kAllEngines, &profile)})
      if (auto got = library_.Check(result, what); !got) return tl::make_unexpected(got.error());
    if (auto kept = remember(info.id); !kept) return tl::make_unexpected(kept.error());
    if (auto got = library_.Check(CreateComputeInstance(instance, profile.id, &part), what); !got)
      return tl::make_unexpected(got.error());
    const auto uuid = UuidOf(device, info.id);
    if (uuid && *uuid) return **uuid;
    DestroyComputeInstance(part);
    if (!uuid) return tl::make_unexpected(uuid.error());
    return Fail(ErrorCode::kUnavailable,
                fmt::format("NVML: GPU instance {} is shown as no MIG device", info.id));
  }

  // Of the MIG device that a GPU instance is shown as; nullopt: as none.
  Result<std::optional<std::string>> UuidOf(NvmlDevice* device, unsigned instance) const {
    unsigned most = 0;
    if (auto got = library_.Check(GetMostDevices(device, &most), "MIG devices"); !got)
      return tl::make_unexpected(got.error());
    for (unsigned i = 0; i < most; i++) {
      NvmlDevice* one = nullptr;
      unsigned id = 0;
      if (GetDevice(device, i, &one) != kSuccess || GetInstanceId(one, &id) != kSuccess || id != instance)
        continue;
      std::array<char, NvmlLibrary::kMaxText> text{};
      if (auto got = library_.Check(GetUuid(one, text.data(), text.size()), "a MIG device's uuid"); !got)
        return tl::make_unexpected(got.error());
      return std::string(text.data());
    }
    return std::nullopt;
  }

  NvmlLibrary library_;
  // Of the start, so that nothing about one GPU waits for another that hangs.
  std::map<std::string, NvmlDevice*> gpus_;
  int (*GetUuid)(NvmlDevice*, char*, unsigned) = nullptr;
  int (*GetMostDevices)(NvmlDevice*, unsigned*) = nullptr;
  int (*GetDevice)(NvmlDevice*, unsigned, NvmlDevice**) = nullptr;
  int (*GetInstanceId)(NvmlDevice*, unsigned*) = nullptr;
  int (*GetGpuProfile)(NvmlDevice*, unsigned, GpuProfile*) = nullptr;
  int (*CreateGpuInstance)(NvmlDevice*, unsigned, const Placement*, GpuInstance**) = nullptr;
  int (*GetGpuInstances)(NvmlDevice*, unsigned, GpuInstance**, unsigned*) = nullptr;
  int (*GetGpuInstanceInfo)(GpuInstance*, GpuInstanceInfo*) = nullptr;
  int (*DestroyGpuInstance)(GpuInstance*) = nullptr;
  int (*GetComputeProfile)(GpuInstance*, unsigned, unsigned, ComputeProfile*) = nullptr;
  int (*CreateComputeInstance)(GpuInstance*, unsigned, ComputeInstance**) = nullptr;
  int (*GetComputeInstances)(GpuInstance*, unsigned, ComputeInstance**, unsigned*) = nullptr;
  int (*DestroyComputeInstance)(ComputeInstance*) = nullptr;
};

}  // namespace

Result<std::unique_ptr<Mig>> Mig::Open(const std::string& name) {
  auto library = NvmlLibrary::Load(name);
  if (!library) return tl::make_unexpected(library.error());
  auto mig = std::make_unique<NvmlMig>(std::move(*library));
  if (!mig->FindAll())
    return Fail(ErrorCode::kUnavailable,
                fmt::format("{}: expected an NVIDIA driver that makes MIG instances", name));
  if (auto looked = mig->LookAround(); !looked) return tl::make_unexpected(looked.error());
  return mig;
}

}  // namespace spillway::node

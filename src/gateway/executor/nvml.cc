// SPDX-License-Identifier: Apache-2.0
#include "gateway/executor/nvml.h"

#include <fmt/format.h>

#include <utility>

#include "gateway/executor/nvml_library.h"

namespace spillway::gateway {
namespace {

// What we use of nvml.h; Debian has no package of it without its non-free part.
struct NvmlMemory {
  unsigned long long total, free, used;
};
constexpr int kSuccess = NvmlLibrary::kSuccess;
constexpr unsigned kMigOn = 1;
constexpr unsigned kMaxText = NvmlLibrary::kMaxText;

class Nvml {
 public:
  static Result<Nvml> Load(const std::string& name) {
    auto library = NvmlLibrary::Load(name);
    if (!library) return tl::make_unexpected(library.error());
    Nvml nvml(std::move(*library));
    const NvmlLibrary& of = nvml.library_;
    const bool all = of.Find(nvml.GetCount, "nvmlDeviceGetCount_v2") &&
                     of.Find(nvml.GetHandle, "nvmlDeviceGetHandleByIndex_v2") &&
                     of.Find(nvml.GetUuid, "nvmlDeviceGetUUID") &&
                     of.Find(nvml.GetName, "nvmlDeviceGetName") &&
                     of.Find(nvml.GetMemory, "nvmlDeviceGetMemoryInfo");
    if (!all) return Fail(ErrorCode::kUnavailable, fmt::format("{}: expected a newer NVIDIA driver", name));
    // Drivers from before MIG lack these; their GPUs have no instances.
    nvml.has_mig_ = of.Find(nvml.GetMigMode, "nvmlDeviceGetMigMode") &&
                    of.Find(nvml.GetMostInstances, "nvmlDeviceGetMaxMigDeviceCount") &&
                    of.Find(nvml.GetInstance, "nvmlDeviceGetMigDeviceHandleByIndex");
    return nvml;
  }

  Result<std::vector<CudaDevice>> Devices() const {
    std::vector<CudaDevice> devices;
    unsigned count = 0;
    if (auto got = Check(GetCount(&count), "count of GPUs"); !got) return tl::make_unexpected(got.error());
    for (unsigned i = 0; i < count; i++) {
      NvmlDevice* handle = nullptr;
      // One that is lost is not there, whatever the driver calls it; the others are.
      if (GetHandle(i, &handle) != kSuccess) continue;
      auto gpu = Describe(handle, i);
      if (!gpu) continue;
      unsigned mode = 0, pending = 0, most = 0;
      gpu->in_instances = has_mig_ && GetMigMode(handle, &mode, &pending) == kSuccess && mode == kMigOn;
      devices.push_back(*gpu);
      if (!gpu->in_instances || GetMostInstances(handle, &most) != kSuccess) continue;
      for (unsigned j = 0; j < most; j++) {
        NvmlDevice* part = nullptr;
        if (GetInstance(handle, j, &part) != kSuccess) continue;  // a place where none was made
        auto instance = Describe(part, i);
        if (!instance) continue;
        instance->gpu = gpu->uuid;
        devices.push_back(std::move(*instance));
      }
    }
    return devices;
  }

 private:
  explicit Nvml(NvmlLibrary library) : library_(std::move(library)) {}

  Result<void> Check(int result, const std::string& what) const { return library_.Check(result, what); }

  Result<CudaDevice> Describe(NvmlDevice* handle, unsigned index) const {
    CudaDevice device;
    device.index = index;
    char text[kMaxText] = {};
    if (auto got = Check(GetUuid(handle, text, kMaxText), fmt::format("GPU {}'s uuid", index)); !got)
      return tl::make_unexpected(got.error());
    device.uuid = text;
    if (GetName(handle, text, kMaxText) == kSuccess) device.name = text;
    NvmlMemory memory{};
    if (GetMemory(handle, &memory) == kSuccess) device.memory_bytes = memory.total;
    return device;
  }

  NvmlLibrary library_;
  bool has_mig_ = false;
  int (*GetCount)(unsigned*) = nullptr;
  int (*GetHandle)(unsigned, NvmlDevice**) = nullptr;
  int (*GetUuid)(NvmlDevice*, char*, unsigned) = nullptr;
  int (*GetName)(NvmlDevice*, char*, unsigned) = nullptr;
  int (*GetMemory)(NvmlDevice*, NvmlMemory*) = nullptr;
  int (*GetMigMode)(NvmlDevice*, unsigned* current, unsigned* pending) = nullptr;
  int (*GetMostInstances)(NvmlDevice*, unsigned*) = nullptr;
  int (*GetInstance)(NvmlDevice*, unsigned, NvmlDevice**) = nullptr;
};

}  // namespace

Result<std::vector<CudaDevice>> ListNvmlDevices(const std::string& library) {
  const auto nvml = Nvml::Load(library);
  if (!nvml) return tl::make_unexpected(nvml.error());
  return nvml->Devices();
}

}  // namespace spillway::gateway

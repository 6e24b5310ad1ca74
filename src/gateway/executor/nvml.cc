// SPDX-License-Identifier: Apache-2.0
#include "gateway/executor/nvml.h"

#include <dlfcn.h>
#include <fmt/format.h>

namespace spillway::gateway {
namespace {

// What we use of nvml.h, whose layout NVML keeps; Debian has no package of it without its non-free part.
struct NvmlDevice;
struct NvmlMemory {
  unsigned long long total, free, used;
};
constexpr int kSuccess = 0;
constexpr unsigned kMigOn = 1;
constexpr unsigned kMaxText = 96;  // of a name or a uuid, with its end

class Nvml {
 public:
  static Result<Nvml> Load(const std::string& library) {
    Nvml nvml;
    nvml.library_.reset(dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL));
    if (!nvml.library_)
      return Fail(ErrorCode::kUnavailable, fmt::format("no NVIDIA driver: {} cannot be loaded", library));
    const bool all =
        nvml.Find(nvml.Init, "nvmlInit_v2") && nvml.Find(nvml.Shutdown, "nvmlShutdown") &&
        nvml.Find(nvml.ErrorString, "nvmlErrorString") && nvml.Find(nvml.GetCount, "nvmlDeviceGetCount_v2") &&
        nvml.Find(nvml.GetHandle, "nvmlDeviceGetHandleByIndex_v2") &&
        nvml.Find(nvml.GetUuid, "nvmlDeviceGetUUID") && nvml.Find(nvml.GetName, "nvmlDeviceGetName") &&
        nvml.Find(nvml.GetMemory, "nvmlDeviceGetMemoryInfo");
    if (!all)
      return Fail(ErrorCode::kUnavailable, fmt::format("{}: expected a newer NVIDIA driver", library));
    // Drivers from before MIG lack these; their GPUs have no instances.
    nvml.has_mig_ = nvml.Find(nvml.GetMigMode, "nvmlDeviceGetMigMode") &&
                    nvml.Find(nvml.GetMostInstances, "nvmlDeviceGetMaxMigDeviceCount") &&
                    nvml.Find(nvml.GetInstance, "nvmlDeviceGetMigDeviceHandleByIndex");
    if (auto begun = nvml.Check(nvml.Init(), "nvmlInit"); !begun) return tl::make_unexpected(begun.error());
    nvml.begun_ = true;
    return nvml;
  }
  Nvml(Nvml&& other) noexcept { *this = std::move(other); }
  Nvml& operator=(Nvml&& other) noexcept = default;
  ~Nvml() {
    if (library_ && begun_) Shutdown();
  }

  Result<std::vector<CudaDevice>> Devices() const {
    std::vector<CudaDevice> devices;
    unsigned count = 0;
    if (auto got = Check(GetCount(&count), "count of GPUs"); !got) return tl::make_unexpected(got.error());
    for (unsigned i = 0; i < count; i++) {
      NvmlDevice* handle = nullptr;
      if (auto got = Check(GetHandle(i, &handle), fmt::format("GPU {}", i)); !got)
        return tl::make_unexpected(got.error());
      auto gpu = Describe(handle, i);
      if (!gpu) return tl::make_unexpected(gpu.error());
      unsigned mode = 0, pending = 0, most = 0;
      gpu->in_instances = has_mig_ && GetMigMode(handle, &mode, &pending) == kSuccess && mode == kMigOn;
      devices.push_back(*gpu);
      if (!gpu->in_instances || GetMostInstances(handle, &most) != kSuccess) continue;
      for (unsigned j = 0; j < most; j++) {
        NvmlDevice* part = nullptr;
        if (GetInstance(handle, j, &part) != kSuccess) continue;  // a place where none was made
        auto instance = Describe(part, i);
        if (!instance) return tl::make_unexpected(instance.error());
        instance->gpu = gpu->uuid;
        devices.push_back(std::move(*instance));
      }
    }
    return devices;
  }

 private:
  struct Close {
    void operator()(void* library) const { dlclose(library); }
  };

  Nvml() = default;

  template <class Function>
  bool Find(Function*& into, const char* name) {
    into = reinterpret_cast<Function*>(dlsym(library_.get(), name));
    return into != nullptr;
  }

  Result<void> Check(int result, const std::string& what) const {
    if (result == kSuccess) return {};
    return Fail(ErrorCode::kUnavailable, fmt::format("NVML: {}: {}", what, ErrorString(result)));
  }

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

  std::unique_ptr<void, Close> library_;
  bool begun_ = false, has_mig_ = false;
  int (*Init)() = nullptr;
  int (*Shutdown)() = nullptr;
  const char* (*ErrorString)(int) = nullptr;
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

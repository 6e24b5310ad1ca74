// SPDX-License-Identifier: Apache-2.0
#include "gateway/executor/nvml_library.h"

#include <dlfcn.h>
#include <fmt/format.h>

namespace spillway::gateway {

void NvmlLibrary::Close::operator()(void* library) const { dlclose(library); }

void* NvmlLibrary::Symbol(const char* name) const { return dlsym(library_.get(), name); }

Result<NvmlLibrary> NvmlLibrary::Load(const std::string& library) {
  NvmlLibrary nvml;
  nvml.library_.reset(dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL));
  if (!nvml.library_)
    return Fail(ErrorCode::kUnavailable, fmt::format("no NVIDIA driver: {} cannot be loaded", library));
  int (*init)() = nullptr;
  int (*shutdown)() = nullptr;
  if (!nvml.Find(init, "nvmlInit_v2") || !nvml.Find(shutdown, "nvmlShutdown") ||
      !nvml.Find(nvml.error_string_, "nvmlErrorString"))
    return Fail(ErrorCode::kUnavailable, fmt::format("{}: expected a newer NVIDIA driver", library));
  if (auto begun = nvml.Check(init(), "nvmlInit"); !begun) return tl::make_unexpected(begun.error());
  nvml.shutdown_ = shutdown;
  return nvml;
}

NvmlLibrary::~NvmlLibrary() {
  if (library_ && shutdown_ != nullptr) shutdown_();
}

Result<std::map<std::string, NvmlDevice*>> NvmlLibrary::Gpus() const {
  int (*GetCount)(unsigned*) = nullptr;
  int (*GetHandle)(unsigned, NvmlDevice**) = nullptr;
  int (*GetUuid)(NvmlDevice*, char*, unsigned) = nullptr;
  if (!Find(GetCount, "nvmlDeviceGetCount_v2") || !Find(GetHandle, "nvmlDeviceGetHandleByIndex_v2") ||
      !Find(GetUuid, "nvmlDeviceGetUUID"))
    return Fail(ErrorCode::kUnavailable, "expected a newer NVIDIA driver");
  unsigned count = 0;
  if (auto got = Check(GetCount(&count), "count of GPUs"); !got) return tl::make_unexpected(got.error());
  std::map<std::string, NvmlDevice*> gpus;
  for (unsigned i = 0; i < count; i++) {
    NvmlDevice* device = nullptr;
    char text[kMaxText] = {};
    if (GetHandle(i, &device) == kSuccess && GetUuid(device, text, kMaxText) == kSuccess) gpus[text] = device;
  }
  return gpus;
}

Result<void> NvmlLibrary::Check(int result, const std::string& what) const {
  if (result == kSuccess) return {};
  return Fail(ErrorCode::kUnavailable, fmt::format("NVML: {}: {}", what, error_string_(result)));
}

}  // namespace spillway::gateway

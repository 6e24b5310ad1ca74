// SPDX-License-Identifier: Apache-2.0
// CudaDriver on the CUDA runtime, with the driver's own contexts where MPS limits a slice's multiprocessors.
#include <cudaTypedefs.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "gateway/executor/cuda_driver.h"
#include "gateway/executor/cuda_product.h"
#include "gateway/executor/nvml.h"

namespace spillway::gateway {
namespace {

// Whether the device, or this process's place on it, may still be good after that. A few say so; what else
// comes of a copy, a launch or a wait is taken for the end: an executor that starts anew costs less than one
// that answers every request with an error.
bool IsOfOneCall(cudaError_t error) {
  switch (error) {
    case cudaErrorInvalidValue:
    case cudaErrorMemoryAllocation:
    case cudaErrorInvalidConfiguration:
    case cudaErrorLaunchOutOfResources:
    case cudaErrorHostMemoryAlreadyRegistered:
    case cudaErrorHostMemoryNotRegistered:
      return true;
    default:
      return false;
  }
}

Result<void> Check(cudaError_t error, const std::string& what) {
  if (error == cudaSuccess) return {};
  cudaGetLastError();  // one that only says so once is said now
  // An error that breaks the context comes back from every call; but not that of an MPS server that is gone.
  const bool gone = !IsOfOneCall(error) || cudaFree(nullptr) != cudaSuccess;
  return Fail(gone ? ErrorCode::kUnavailable : ErrorCode::kSystem,
              fmt::format("{}: {}", what, cudaGetErrorString(error)));
}

// The driver's calls that the runtime has no word for. They are looked up: a build needs no libcuda.
struct Contexts {
  PFN_cuDeviceGet_v2000 device_get = nullptr;
  PFN_cuDeviceGetExecAffinitySupport_v11040 affinity_support = nullptr;
  PFN_cuCtxCreate_v11040 create = nullptr;
  PFN_cuCtxDestroy_v4000 destroy = nullptr;

  static const Contexts* Get() {
    static const Contexts contexts = [] {
      Contexts c;
      void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
      if (library == nullptr) return c;
      const auto find = [&](auto& into, const char* name) {
        into = reinterpret_cast<std::remove_reference_t<decltype(into)>>(dlsym(library, name));
      };
      find(c.device_get, "cuDeviceGet");
      find(c.affinity_support, "cuDeviceGetExecAffinitySupport");
      find(c.create, "cuCtxCreate_v3");
      find(c.destroy, "cuCtxDestroy_v2");
      return c;
    }();
    const bool all = contexts.device_get && contexts.affinity_support && contexts.create && contexts.destroy;
    return all ? &contexts : nullptr;
  }
};

class CardQueue : public CudaQueue {
 public:
  static Result<std::unique_ptr<CudaQueue>> Open(int device, int sm_percent) {
    std::unique_ptr<CardQueue> queue(new CardQueue());
    auto begun = queue->Begin(device, sm_percent);
    if (!begun) return tl::make_unexpected(begun.error());
    return queue;
  }
  ~CardQueue() override {
    // What is still running must not outlive the memory that it uses. Errors: of a device that is gone.
    if (stream_ != nullptr) cudaStreamSynchronize(stream_);
    for (void* memory : allocated_) cudaFree(memory);
    for (void* memory : pinned_) cudaHostUnregister(memory);
    if (done_ != nullptr) cudaEventDestroy(done_);
    if (stream_ != nullptr) cudaStreamDestroy(stream_);
    if (context_ != nullptr) Contexts::Get()->destroy(context_);
  }

  Result<void> Pin(std::span<std::byte> memory) override {
    auto pinned = Check(cudaHostRegister(memory.data(), memory.size(), cudaHostRegisterDefault),
                        fmt::format("pin {} bytes", memory.size()));
    if (pinned) pinned_.push_back(memory.data());
    return pinned;
  }
  Result<std::byte*> Allocate(uint64_t bytes) override {
    void* memory = nullptr;
    if (auto made = Check(cudaMalloc(&memory, bytes), "allocate"); !made)
      return tl::make_unexpected(made.error());
    allocated_.push_back(memory);
    return static_cast<std::byte*>(memory);
  }
  Result<void> CopyIn(std::byte* to, std::span<const std::byte> from) override {
    return Check(cudaMemcpyAsync(to, from.data(), from.size(), cudaMemcpyHostToDevice, stream_), "copy in");
  }
  Result<void> CopyOut(std::span<std::byte> to, const std::byte* from) override {
    return Check(cudaMemcpyAsync(to.data(), from, to.size(), cudaMemcpyDeviceToHost, stream_), "copy out");
  }
  Result<void> Multiply(const float* a, const float* b, float* c, int64_t m, int64_t k, int64_t n,
                        bool relu) override {
    const int error = LaunchProduct({a, b, c, m, k, n, relu, 0, 1, partials_}, stream_);
    return Check(static_cast<cudaError_t>(error), "launch");
  }
  Result<void> Wait() override {
    // An event that sleeps: a stream's own wait would spin on the host's CPU, which is not for that.
    if (auto recorded = Check(cudaEventRecord(done_, stream_), "record"); !recorded) return recorded;
    return Check(cudaEventSynchronize(done_), "wait");
  }

 private:
  CardQueue() = default;

  Result<void> Begin(int device, int sm_percent) {
    if (sm_percent == 100) {
      if (auto set = Check(cudaSetDevice(device), "set device"); !set) return set;
    } else if (auto made = MakeContext(device, sm_percent); !made) {
      return made;
    }
    if (auto made = Check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "stream"); !made)
      return made;
    auto partials = Allocate(kMaxPartials * sizeof(float));
    if (!partials) return tl::make_unexpected(partials.error());
    partials_ = reinterpret_cast<float*>(*partials);
    return Check(cudaEventCreateWithFlags(&done_, cudaEventBlockingSync | cudaEventDisableTiming), "event");
  }

  // A context of its own, current on this thread from here on, to which MPS gives no more than its share.
  Result<void> MakeContext(int device, int sm_percent) {
    const auto lacks = [](const std::string& text) {
      return Fail(ErrorCode::kUnavailable, "sm_percent: " + text);
    };
    const Contexts* contexts = Contexts::Get();
    if (contexts == nullptr) return lacks("expected a driver of CUDA 11.4 or newer");
    int processors = 0;
    if (auto got = Check(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device),
                         "count of multiprocessors");
        !got)
      return got;
    CUdevice card = 0;
    int supported = 0;
    if (contexts->device_get(&card, device) != CUDA_SUCCESS ||
        contexts->affinity_support(&supported, CU_EXEC_AFFINITY_TYPE_SM_COUNT, card) != CUDA_SUCCESS ||
        supported == 0)
      return lacks("expected MPS to run (nvidia-cuda-mps-control -d) on a GPU of Volta or newer");
    CUexecAffinityParam affinity{};
    affinity.type = CU_EXEC_AFFINITY_TYPE_SM_COUNT;
    affinity.param.smCount.val = static_cast<unsigned>(std::max(1, processors * sm_percent / 100));
    if (const CUresult made = contexts->create(&context_, &affinity, 1, 0, card); made != CUDA_SUCCESS)
      return lacks(fmt::format("no context of {} multiprocessors: CUDA error {}", affinity.param.smCount.val,
                               static_cast<int>(made)));
    return {};
  }

  CUcontext context_ = nullptr;  // nullptr: the device's primary one
  cudaStream_t stream_ = nullptr;
  cudaEvent_t done_ = nullptr;
  float* partials_ = nullptr;  // LaunchProduct's
  std::vector<void*> pinned_, allocated_;
};

class CardDriver : public CudaDriver {
 public:
  Result<std::vector<CudaDevice>> Devices() override { return ListNvmlDevices(); }

  Result<void> Use(const std::vector<CudaDevice>& devices) override {
    // What CUDA counts are then our devices, in our order, whatever the machine has beside them.
    std::string list;
    for (const CudaDevice& device : devices) {
      if (std::find(used_.begin(), used_.end(), device.uuid) != used_.end()) continue;
      used_.push_back(device.uuid);
      list += (list.empty() ? "" : ",") + device.uuid;
    }
    setenv("CUDA_VISIBLE_DEVICES", list.c_str(), 1);
    int count = 0;
    if (auto got = Check(cudaGetDeviceCount(&count), "CUDA"); !got)
      return Fail(ErrorCode::kUnavailable, "engine cuda: " + got.error().message);
    if (static_cast<size_t>(count) != used_.size())
      return Fail(ErrorCode::kUnavailable,
                  fmt::format("engine cuda: CUDA shows {} devices of {}", count, list));
    return {};
  }

  Result<std::unique_ptr<CudaQueue>> Open(const CudaDevice& device, int sm_percent) override {
    const auto found = std::find(used_.begin(), used_.end(), device.uuid);
    if (found == used_.end()) return Fail(ErrorCode::kSystem, device.uuid + ": not in use");
    return CardQueue::Open(static_cast<int>(found - used_.begin()), sm_percent);
  }

 private:
  std::vector<std::string> used_;
};

}  // namespace

Result<std::unique_ptr<CudaDriver>> MakeCudaDriver() { return std::make_unique<CardDriver>(); }

}  // namespace spillway::gateway

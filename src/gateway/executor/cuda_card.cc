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

// The driver's calls that the runtime has no word for. They are looked up: a build needs no libcuda. One that
// the driver is too old for is nullptr.
struct DriverCalls {
  PFN_cuDeviceGet_v2000 device_get = nullptr;
  PFN_cuDeviceGetAttribute_v2000 attribute = nullptr;
  PFN_cuDeviceGetExecAffinitySupport_v11040 affinity_support = nullptr;
  PFN_cuCtxCreate_v11040 context_create = nullptr;
  PFN_cuCtxPopCurrent_v4000 context_pop = nullptr;
  PFN_cuCtxSetCurrent_v4000 context_set = nullptr;
  PFN_cuCtxDestroy_v4000 context_destroy = nullptr;
  PFN_cuPointerSetAttribute_v6000 pointer_set = nullptr;
  PFN_cuMemGetHandleForAddressRange_v11070 range_handle = nullptr;

  static const DriverCalls& Get() {
    static const DriverCalls calls = [] {
      DriverCalls c;
      void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
      if (library == nullptr) return c;
      const auto find = [&](auto& into, const char* name) {
        into = reinterpret_cast<std::remove_reference_t<decltype(into)>>(dlsym(library, name));
      };
      find(c.device_get, "cuDeviceGet");
      find(c.attribute, "cuDeviceGetAttribute");
      find(c.affinity_support, "cuDeviceGetExecAffinitySupport");
      find(c.context_create, "cuCtxCreate_v3");
      find(c.context_pop, "cuCtxPopCurrent_v2");
      find(c.context_set, "cuCtxSetCurrent");
      find(c.context_destroy, "cuCtxDestroy_v2");
      find(c.pointer_set, "cuPointerSetAttribute");
      find(c.range_handle, "cuMemGetHandleForAddressRange");
      return c;
    }();
    return calls;
  }
  [[nodiscard]] bool HasContexts() const {
    return device_get && affinity_support && context_create && context_pop && context_set && context_destroy;
  }
};

// A place on a device for what is asked of it, by whichever thread has entered it: the device's primary
// context, or one of its own, to which MPS gives no more than its share.
class CardContext {
 public:
  CardContext() = default;
  CardContext(const CardContext&) = delete;
  CardContext& operator=(const CardContext&) = delete;
  ~CardContext() {
    if (own_ == nullptr) return;
    DriverCalls::Get().context_set(nullptr);
    DriverCalls::Get().context_destroy(own_);
  }

  Result<void> Open(int device, int sm_percent) {
    device_ = device;
    if (sm_percent < 100)
      if (auto made = Make(sm_percent); !made) return made;
    return Enter();
  }
  [[nodiscard]] Result<void> Enter() const {
    if (own_ == nullptr) return Check(cudaSetDevice(device_), "set device");
    if (const CUresult set = DriverCalls::Get().context_set(own_); set != CUDA_SUCCESS)
      return Fail(ErrorCode::kUnavailable, fmt::format("set context: CUDA error {}", static_cast<int>(set)));
    return {};
  }
  [[nodiscard]] int device() const { return device_; }

 private:
  Result<void> Make(int sm_percent) {
    const auto lacks = [](const std::string& text) {
      return Fail(ErrorCode::kUnavailable, "sm_percent: " + text);
    };
    const DriverCalls& calls = DriverCalls::Get();
    if (!calls.HasContexts()) return lacks("expected a driver of CUDA 11.4 or newer");
    int processors = 0;
    if (auto got = Check(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device_),
                         "count of multiprocessors");
        !got)
      return got;
    CUdevice card = 0;
    int supported = 0;
    if (calls.device_get(&card, device_) != CUDA_SUCCESS ||
        calls.affinity_support(&supported, CU_EXEC_AFFINITY_TYPE_SM_COUNT, card) != CUDA_SUCCESS ||
        supported == 0)
      return lacks("expected MPS to run (nvidia-cuda-mps-control -d) on a GPU of Volta or newer");
    CUexecAffinityParam affinity{};
    affinity.type = CU_EXEC_AFFINITY_TYPE_SM_COUNT;
    affinity.param.smCount.val = static_cast<unsigned>(std::max(1, processors * sm_percent / 100));
    if (const CUresult made = calls.context_create(&own_, &affinity, 1, 0, card); made != CUDA_SUCCESS)
      return lacks(fmt::format("no context of {} multiprocessors: CUDA error {}", affinity.param.smCount.val,
                               static_cast<int>(made)));
    // It is current here now, on top of this thread's others: off, so that any thread may enter it.
    CUcontext popped = nullptr;
    calls.context_pop(&popped);
    return {};
  }

  int device_ = 0;
  CUcontext own_ = nullptr;  // nullptr: the device's primary one
};

// Pages of a GPU, in which its memory is opened to other devices. Source: GPUDirect RDMA, "Pinning GPU
// memory".
constexpr uint64_t kGpuPage = 64 << 10;

class CardQueue : public CudaQueue {
 public:
  static Result<std::unique_ptr<CudaQueue>> Open(int device, int sm_percent) {
    std::unique_ptr<CardQueue> queue(new CardQueue());
    auto begun = queue->Begin(device, sm_percent);
    if (!begun) return tl::make_unexpected(begun.error());
    return queue;
  }
  ~CardQueue() override {
    (void)context_.Enter();
    // What is still running must not outlive the memory that it uses. Errors: of a device that is gone.
    if (stream_ != nullptr) cudaStreamSynchronize(stream_);
    for (void* memory : allocated_) cudaFree(memory);
    for (void* memory : pinned_) cudaHostUnregister(memory);
    if (done_ != nullptr) cudaEventDestroy(done_);
    if (stream_ != nullptr) cudaStreamDestroy(stream_);
  }

  Result<void> Enter() override { return context_.Enter(); }

  Result<void> Pin(std::span<std::byte> memory) override {
    auto pinned = Check(cudaHostRegister(memory.data(), memory.size(), cudaHostRegisterDefault),
                        fmt::format("pin {} bytes", memory.size()));
    if (pinned) pinned_.push_back(memory.data());
    return pinned;
  }
  void Unpin(std::span<std::byte> memory) override {
    if (std::erase(pinned_, static_cast<void*>(memory.data())) == 0) return;
    cudaStreamSynchronize(stream_);
    cudaHostUnregister(memory.data());
  }
  Result<std::byte*> Allocate(uint64_t bytes) override {
    void* memory = nullptr;
    if (auto made = Check(cudaMalloc(&memory, bytes), "allocate"); !made)
      return tl::make_unexpected(made.error());
    allocated_.push_back(memory);
    return static_cast<std::byte*>(memory);
  }
  Result<std::span<std::byte>> AllocateShared(uint64_t bytes) override {
    if (auto able = LearnOrdering(); !able) return tl::make_unexpected(able.error());
    // The allocator gives pieces of its own pages, and what other devices get are whole pages.
    const auto in_pages = [](uint64_t n) { return (n + kGpuPage - 1) & ~(kGpuPage - 1); };
    auto memory = Allocate(in_pages(bytes) + kGpuPage);
    if (!memory) return tl::make_unexpected(memory.error());
    auto* const first = reinterpret_cast<std::byte*>(in_pages(reinterpret_cast<uint64_t>(*memory)));
    // With it, synchronous copies of this memory never return early. Ours are asynchronous and waited for by
    // an event; NVIDIA asks for it of all memory that other devices write.
    const unsigned on = 1;
    const auto address = reinterpret_cast<CUdeviceptr>(first);
    if (DriverCalls::Get().pointer_set == nullptr ||
        DriverCalls::Get().pointer_set(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, address) != CUDA_SUCCESS)
      return Fail(ErrorCode::kSystem, "the driver cannot synchronize copies of it (SYNC_MEMOPS)");
    const std::span shared(first, in_pages(bytes));
    if (auto cleared = Check(cudaMemsetAsync(first, 0, shared.size(), stream_), "clear"); !cleared)
      return tl::make_unexpected(cleared.error());
    if (auto cleared = Check(cudaStreamSynchronize(stream_), "clear"); !cleared)
      return tl::make_unexpected(cleared.error());
    return shared;
  }
  Result<base::Fd> Export(std::span<std::byte> shared) override {
    const auto lacks = [](const std::string& text) { return Fail(ErrorCode::kSystem, text); };
    const DriverCalls& calls = DriverCalls::Get();
    if (calls.range_handle == nullptr) return lacks("expected a driver of CUDA 11.7 or newer");
    if (!ExportsDmabuf())
      return lacks("the driver exports none, expected NVIDIA's open kernel modules and Linux 5.12 or newer");
    int fd = -1;
    const CUresult got = calls.range_handle(&fd, reinterpret_cast<CUdeviceptr>(shared.data()), shared.size(),
                                            CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0);
    if (got != CUDA_SUCCESS) return lacks(fmt::format("export: CUDA error {}", static_cast<int>(got)));
    return base::Fd(fd);
  }
  Result<void> Acquire() override {
    if (is_ordered_) return {};
    return Check(cudaDeviceFlushGPUDirectRDMAWrites(cudaFlushGPUDirectRDMAWritesTargetCurrentDevice,
                                                    cudaFlushGPUDirectRDMAWritesToOwner),
                 "flush RDMA writes");
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
    if (auto opened = context_.Open(device, sm_percent); !opened) return opened;
    if (auto made = Check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "stream"); !made)
      return made;
    auto partials = Allocate(kMaxPartials * sizeof(float));
    if (!partials) return tl::make_unexpected(partials.error());
    partials_ = reinterpret_cast<float*>(*partials);
    return Check(cudaEventCreateWithFlags(&done_, cudaEventBlockingSync | cudaEventDisableTiming), "event");
  }

  [[nodiscard]] bool ExportsDmabuf() const {
    const DriverCalls& calls = DriverCalls::Get();
    CUdevice card = 0;
    int exports = 0;
    return calls.device_get != nullptr && calls.attribute != nullptr &&
           calls.device_get(&card, context_.device()) == CUDA_SUCCESS &&
           calls.attribute(&exports, CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED, card) == CUDA_SUCCESS &&
           exports != 0;
  }

  // What it takes until the device's own work sees what an RDMA device wrote into its memory and has said so.
  // A device whose writes are in order for its own context ("owner", or beyond) needs nothing; another is
  // asked to flush them, before each request's work; one that can do neither gets no such memory.
  Result<void> LearnOrdering() {
    int supported = 0, ordering = 0, options = 0;
    for (const auto& [into, attribute] : {std::pair(&supported, cudaDevAttrGPUDirectRDMASupported),
                                          std::pair(&ordering, cudaDevAttrGPUDirectRDMAWritesOrdering),
                                          std::pair(&options, cudaDevAttrGPUDirectRDMAFlushWritesOptions)})
      if (auto got = Check(cudaDeviceGetAttribute(into, attribute, context_.device()), "GPUDirect RDMA");
          !got)
        return got;
    // "Supported" is of the way by which nvidia-peermem goes, which newer platforms may have no more.
    if (supported == 0 && !ExportsDmabuf())
      return Fail(ErrorCode::kSystem, "the GPU or its driver has no GPUDirect RDMA");
    is_ordered_ = ordering >= cudaGPUDirectRDMAWritesOrderingOwner;
    if (!is_ordered_ && (options & cudaFlushGPUDirectRDMAWritesOptionHost) == 0)
      return Fail(ErrorCode::kSystem, "the GPU neither orders nor flushes what RDMA devices write");
    return {};
  }

  CardContext context_;  // goes last
  bool is_ordered_ = true;
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

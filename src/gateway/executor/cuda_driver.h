// SPDX-License-Identifier: Apache-2.0
// What the engine `cuda` asks of NVIDIA's libraries, and nothing else: the engine above is tested on a double
// of this (tests/unit/gateway/fake_cuda.h), so that little is left which only a card can show.
// Errors: kUnavailable means that the device is gone or broken for good; anything else that this one
// operation failed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/fd.h"

namespace spillway::gateway {

// A GPU, or a MIG instance of one.
struct CudaDevice {
  std::string uuid;  // "GPU-..." or "MIG-..."
  std::string name;
  uint32_t index = 0;         // of the GPU, as nvidia-smi counts
  std::string gpu;            // of an instance: its GPU's uuid
  bool in_instances = false;  // MIG is on: only its instances run anything
  uint64_t memory_bytes = 0;

  [[nodiscard]] bool is_instance() const { return !gpu.empty(); }
};

// A slice's place on a device: a stream, and all memory that was asked of it, freed with it. What it does
// happens in the order of calls, by Wait at the latest. One thread at a time: Open's, then whichever called
// Enter last. Any thread may end it.
class CudaQueue {
 public:
  virtual ~CudaQueue() = default;
  // The calling thread uses it from here on.
  [[nodiscard]] virtual Result<void> Enter() = 0;
  // The host's memory is registered with the device, which then copies from and to it by itself; until Unpin,
  // which waits for what it does there, or the end.
  [[nodiscard]] virtual Result<void> Pin(std::span<std::byte> memory) = 0;
  virtual void Unpin(std::span<std::byte> memory) = 0;
  // Memory of the device, aligned for anything.
  [[nodiscard]] virtual Result<std::byte*> Allocate(uint64_t bytes) = 0;
  // Memory of the device that RDMA devices may be let write: zeroed, whole pages of the device and of the
  // host, none of them shared with anything else. Errors: also kSystem, the device or its driver does not
  // allow for it.
  [[nodiscard]] virtual Result<std::span<std::byte>> AllocateShared(uint64_t bytes) = 0;
  // All of what AllocateShared gave as a dmabuf. Errors: kSystem, with the reason.
  [[nodiscard]] virtual Result<base::Fd> Export(std::span<std::byte> shared) = 0;
  // What RDMA devices wrote there, as far as their completions have told this thread of it, is seen by all
  // that is begun from here on.
  [[nodiscard]] virtual Result<void> Acquire() = 0;
  [[nodiscard]] virtual Result<void> CopyIn(std::byte* to, std::span<const std::byte> from) = 0;
  [[nodiscard]] virtual Result<void> CopyOut(std::span<std::byte> to, const std::byte* from) = 0;
  // c = a x b, all on the device, row-major: [m, k] x [k, n]. With `relu`, negative results become 0.
  [[nodiscard]] virtual Result<void> Multiply(const float* a, const float* b, float* c, int64_t m, int64_t k,
                                              int64_t n, bool relu) = 0;
  // Sleeps until all of it is done.
  [[nodiscard]] virtual Result<void> Wait() = 0;
};

// Threads: any, once Use has returned.
class CudaDriver {
 public:
  virtual ~CudaDriver() = default;
  // GPUs in nvidia-smi's order, each followed by its instances.
  [[nodiscard]] virtual Result<std::vector<CudaDevice>> Devices() = 0;
  // Once, before Open: what this process will open. CUDA shows a process either GPUs or one instance.
  [[nodiscard]] virtual Result<void> Use(const std::vector<CudaDevice>& devices) = 0;
  // `sm_percent` below 100: so many of the device's multiprocessors at most, which MPS sees to.
  [[nodiscard]] virtual Result<std::unique_ptr<CudaQueue>> Open(const CudaDevice& device, int sm_percent) = 0;
};

// kUnavailable in a build without CUDA, and where there is no driver.
[[nodiscard]] Result<std::unique_ptr<CudaDriver>> MakeCudaDriver();

}  // namespace spillway::gateway

// SPDX-License-Identifier: Apache-2.0
// Memory of a GPU that a slice's inputs are delivered into by RDMA, and how an RDMA device is given it. An
// engine makes the memory (executor/cuda_engine.h), rdma/ the registration. Needs neither CUDA nor RDMA.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "base/error.h"
#include "base/fd.h"
#include "gateway/broker/broker.h"

namespace spillway::gateway {

// Freed with it. One thread at a time.
class DeviceMemory {
 public:
  virtual ~DeviceMemory() = default;
  // Whole pages, zeroed. The addresses are the GPU's: the host's CPU reads and writes nothing there.
  [[nodiscard]] virtual std::span<std::byte> bytes() const = 0;
  // All of it as a dmabuf, which keeps nothing alive. Errors: any, with the reason why there is none.
  [[nodiscard]] virtual Result<base::Fd> Export() = 0;
};

// That an RDMA device writes such memory. With its end the key opens nothing any more.
class DeviceRegistration {
 public:
  virtual ~DeviceRegistration() = default;
  [[nodiscard]] virtual uint32_t remote_key() const = 0;
};

// The two ways to a registration. Errors: any, with the reason.
class DeviceRegistrar {
 public:
  virtual ~DeviceRegistrar() = default;
  [[nodiscard]] virtual Result<std::unique_ptr<DeviceRegistration>> ByDmabuf(int dmabuf,
                                                                             std::span<std::byte> memory) = 0;
  // As if it were the host's: the kernel asks nvidia-peermem, where that is loaded, whose address it is.
  [[nodiscard]] virtual Result<std::unique_ptr<DeviceRegistration>> ByAddress(
      std::span<std::byte> memory) = 0;
};

struct RegisteredDeviceMemory {
  RegisteredDeviceMemory() = default;
  RegisteredDeviceMemory(RegisteredDeviceMemory&&) = default;
  RegisteredDeviceMemory& operator=(RegisteredDeviceMemory&&) =
      delete;  // would free memory that is registered

  std::unique_ptr<DeviceMemory> memory;
  std::unique_ptr<DeviceRegistration> registration;  // goes before the memory does
  std::string kind;                                  // SliceOffer::memory: "gpu-dmabuf" or "gpu-peermem"
  std::string why_not_better;                        // of the latter: why no dmabuf
};

// By dmabuf, else by nvidia-peermem. Errors: kSystem, with both ways' reasons; the memory is freed then.
[[nodiscard]] Result<RegisteredDeviceMemory> RegisterDeviceMemory(std::unique_ptr<DeviceMemory> memory,
                                                                  DeviceRegistrar& registrar);

// Whether, and from whom, a slice's inputs get memory on a GPU.
struct DeviceInputs {
  // For one slice, of so many bytes at least. nullptr: its engine has no GPU. Empty: not asked for.
  std::function<Result<std::unique_ptr<DeviceMemory>>(const SliceOffer& slice, uint64_t bytes)> make = {};
  bool is_required = false;  // else a slice that cannot have any has its inputs in the host's memory
};

}  // namespace spillway::gateway

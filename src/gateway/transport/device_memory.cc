// SPDX-License-Identifier: Apache-2.0
#include "gateway/transport/device_memory.h"

#include <fmt/format.h>

namespace spillway::gateway {

Result<RegisteredDeviceMemory> RegisterDeviceMemory(std::unique_ptr<DeviceMemory> memory,
                                                    DeviceRegistrar& registrar) {
  RegisteredDeviceMemory registered;
  registered.memory = std::move(memory);
  const auto bytes = registered.memory->bytes();
  const auto dmabuf = registered.memory->Export();
  auto by_dmabuf = dmabuf ? registrar.ByDmabuf(dmabuf->get(), bytes) : tl::make_unexpected(dmabuf.error());
  if (by_dmabuf) {
    registered.registration = std::move(*by_dmabuf);
    registered.kind = "gpu-dmabuf";
    return registered;
  }
  registered.why_not_better = "dmabuf: " + by_dmabuf.error().message;
  auto by_address = registrar.ByAddress(bytes);
  if (!by_address)
    return Fail(ErrorCode::kSystem,
                fmt::format("{}; nvidia-peermem: {}", registered.why_not_better, by_address.error().message));
  registered.registration = std::move(*by_address);
  registered.kind = "gpu-peermem";
  return registered;
}

}  // namespace spillway::gateway

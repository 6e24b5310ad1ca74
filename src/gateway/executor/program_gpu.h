// SPDX-License-Identifier: Apache-2.0
// Which GPU a program that is its own slice uses, so that the gateway knows who shares it. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "gateway/executor/cuda_driver.h"

namespace spillway::gateway {

struct GpuWishes {
  std::string named = {};                   // by the program: "none", an index as in nvidia-smi, or a uuid
  std::optional<std::string> visible = {};  // $CUDA_VISIBLE_DEVICES
  uint32_t ordinal = 0;                     // the one of those that CUDA shows that the program uses
  bool by_bus = false;                      // $CUDA_DEVICE_ORDER is PCI_BUS_ID, the order of `devices`
};

// The UUID of the GPU, of a MIG instance its GPU's; empty: none. What the program names goes first, then, of
// the devices that CUDA shows it, the one of `ordinal`. kBadInput: there is no such device, or it cannot be
// told which one it is.
[[nodiscard]] Result<std::string> ProgramGpu(const GpuWishes& wishes, const std::vector<CudaDevice>& devices);

}  // namespace spillway::gateway

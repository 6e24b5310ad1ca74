// SPDX-License-Identifier: Apache-2.0
// GPUs and their MIG instances as the driver's management library (nvml_library.h) lists them.
#pragma once

#include <string>
#include <vector>

#include "gateway/executor/cuda_driver.h"

namespace spillway::gateway {

// As CudaDriver::Devices. kUnavailable: there is no such library, or no driver.
[[nodiscard]] Result<std::vector<CudaDevice>> ListNvmlDevices(
    const std::string& library = "libnvidia-ml.so.1");

}  // namespace spillway::gateway

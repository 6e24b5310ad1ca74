// SPDX-License-Identifier: Apache-2.0
// In place of cuda_card.cc where there is no nvcc.
#include "gateway/executor/cuda_driver.h"

namespace spillway::gateway {

Result<std::unique_ptr<CudaDriver>> MakeCudaDriver() {
  return Fail(ErrorCode::kUnavailable,
              "engine cuda: not in this build, which found no nvcc; expected engine: emulated");
}

}  // namespace spillway::gateway

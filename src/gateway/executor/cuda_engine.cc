// SPDX-License-Identifier: Apache-2.0
// Slices on a GPU. This build has none of it: the interface stands, and says so.
#include "gateway/executor/engine.h"

namespace spillway::gateway {

Result<std::unique_ptr<Engine>> MakeCudaEngine(std::vector<ModelSpec>) {
  return Fail(ErrorCode::kUnavailable,
              "engine cuda: this build has no CUDA engine; expected engine: emulated");
}

}  // namespace spillway::gateway

// SPDX-License-Identifier: Apache-2.0
// MIG instances of a GPU, made and destroyed by the driver's management library
// (gateway/executor/nvml_library.h). An instance has the whole of its part: a GPU instance with one compute
// instance in it. Needs root; MIG's mode itself is the operator's (`nvidia-smi -mig 1`) and never changed.
// Calls about different GPUs: any thread.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/error.h"
#include "gateway/executor/nvml_library.h"
#include "scheduler/gpu_model.h"

namespace spillway::node {

// Where on a GPU: a profile, and its first memory slice.
struct MigPlace {
  std::string gpu;  // its UUID
  scheduler::Profile profile = scheduler::Profile::k1g;
  int start = 0;
};

class Mig {
 public:
  // kUnavailable: no driver, or one from before MIG.
  [[nodiscard]] static Result<std::unique_ptr<Mig>> Open(
      const std::string& library = gateway::NvmlLibrary::kUsual);
  virtual ~Mig() = default;

  struct Instance {
    unsigned id = 0;                       // the GPU instance's, as nvidia-smi has it; used again
    std::optional<std::string> uuid = {};  // "MIG-..."; nullopt: no compute instance is in it
  };
  // The instance's UUID. `remember`: called with the GPU instance's id before there is a compute instance in
  // it; an error ends it. kUnavailable: why the GPU does not give it. Find says what is left of it then.
  [[nodiscard]] virtual Result<std::string> Make(const MigPlace& place,
                                                 const std::function<Result<void>(unsigned)>& remember) = 0;
  // What is there, whoever made it; nullopt: nothing.
  [[nodiscard]] virtual Result<std::optional<Instance>> Find(const MigPlace& place) = 0;
  // Of that id; nothing, where there is none, and the rest of one that has ended in part. kUnavailable: why
  // it stays, such as a process that still uses it.
  [[nodiscard]] virtual Result<void> Drop(const MigPlace& place, unsigned id) = 0;
};

}  // namespace spillway::node

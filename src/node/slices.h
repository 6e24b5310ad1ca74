// SPDX-License-Identifier: Apache-2.0
// How a host's GPUs are cut. One thread.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "node/gpu_watch.h"
#include "node/mig.h"
#include "scheduler/controller/controller.h"

namespace spillway::node {

// What an executor is told of its slice, as in executor.yaml.
struct SliceDevice {
  std::string device;    // "GPU-..." or "MIG-..."
  int sm_percent = 100;  // of the GPU's multiprocessors, by MPS
  bool operator==(const SliceDevice&) const = default;
};

class Slices {
 public:
  virtual ~Slices() = default;
  // Keeps a slice's mark so that it outlives this program, before what it says of comes to be. An error: it
  // does not come to be.
  using Remember = std::function<Result<void>(const std::string& mark)>;
  // What tells the slice from any that others make in its place; empty where nobody can. An error: the GPU
  // does not give it, and why; `remember` was last told of an empty mark, or what is left is to be dropped.
  [[nodiscard]] virtual Result<std::string> Make(const scheduler::WantedInstance& instance,
                                                 const Remember& remember) = 0;
  // `mark`: the last, Make's or what was remembered. Nothing, where there is none of that mark. An error: it
  // is still there, and why.
  [[nodiscard]] virtual Result<void> Drop(const scheduler::WantedInstance& instance, const std::string& mark,
                                          const Remember& remember) = 0;
  // By GPU that cannot be used now: why.
  [[nodiscard]] virtual std::map<std::string, std::string> Lost() const { return {}; }
  // One that was made, or was being made, before the program's restart.
  virtual void Restore(const scheduler::WantedInstance& instance) = 0;
  // Of one that was made. nullopt: it is emulated. An error: it is gone.
  [[nodiscard]] virtual Result<std::optional<SliceDevice>> DeviceOf(const scheduler::WantedInstance& instance,
                                                                    const std::string& mark) = 0;
};

// GPUs that are there in name only. They refuse what a GPU would: more than all of it, slices over one
// another, shares and profiles that it does not have.
[[nodiscard]] std::unique_ptr<Slices> MakeEmulatedSlices(const std::vector<scheduler::Gpu>& gpus);

// NVIDIA GPUs. devices: by GPU its UUID. A place with a profile is a MIG instance, one without it a share of
// the multiprocessors by MPS. mig: nullptr where no GPU can be divided. watch: of these devices; nullptr:
// none is ever lost. boot: which one of the machine this is.
[[nodiscard]] std::unique_ptr<Slices> MakeGpuSlices(const std::vector<scheduler::Gpu>& gpus,
                                                    std::map<std::string, std::string> devices,
                                                    std::unique_ptr<Mig> mig, std::unique_ptr<GpuWatch> watch,
                                                    std::string boot);

}  // namespace spillway::node

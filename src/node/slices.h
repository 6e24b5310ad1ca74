// SPDX-License-Identifier: Apache-2.0
// How a host's GPUs are cut. One thread.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "scheduler/controller/controller.h"

namespace spillway::node {

class Slices {
 public:
  virtual ~Slices() = default;
  // An error: the GPU does not give it, and why.
  [[nodiscard]] virtual Result<void> Make(const scheduler::WantedInstance& instance) = 0;
  // Nothing, where there is none.
  virtual void Drop(const scheduler::WantedInstance& instance) = 0;
  // One that was made before the program's restart.
  virtual void Restore(const scheduler::WantedInstance& instance) = 0;
};

// GPUs that are there in name only. They refuse what a GPU would: more than all of it, slices over one
// another, shares and profiles that it does not have.
[[nodiscard]] std::unique_ptr<Slices> MakeEmulatedSlices(const std::vector<scheduler::Gpu>& gpus);

}  // namespace spillway::node

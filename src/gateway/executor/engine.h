// SPDX-License-Identifier: Apache-2.0
// What runs models on slices. Two exist: `emulated` (a thread per slice, real matrix products on the host,
// stretched to the slice's speed) and `cuda` (cuda_engine.h: built where nvcc is, run where a GPU is).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "gateway/model_spec.h"
#include "gateway/protocol/tensor.h"
#include "gateway/transport/executor_offer.h"

namespace spillway::gateway {

// One slice's engine. One thread, the slice's.
class SliceEngine {
 public:
  virtual ~SliceEngine() = default;
  // Runs a model on inputs of that many rows, in the memory that the slice was made with. Sizes are the
  // card's: checked before. Errors: this request failed; kUnavailable: the slice itself is gone and runs
  // nothing any more.
  [[nodiscard]] virtual Result<void> Run(uint32_t model, int64_t rows, std::span<const std::byte> inputs,
                                         std::span<std::byte> outputs) = 0;
};

// Threads: any.
class Engine {
 public:
  virtual ~Engine() = default;
  [[nodiscard]] virtual const std::vector<ModelCard>& models() const = 0;
  // The UUID of the GPU that the slice is on, of an instance its GPU's; empty: it is on none, or not known.
  [[nodiscard]] virtual std::string GpuOf(const SliceOffer&) const { return {}; }
  // SliceOffer's `memory` of such a slice, whose inputs are in the host's memory.
  [[nodiscard]] virtual std::string MemoryOf(const SliceOffer&) const { return "host"; }
  // Memory of the slice's GPU, into which other devices may write its inputs; nullptr: it is on none. Errors:
  // any, with the reason why there is none; the slice then has the host's.
  [[nodiscard]] virtual Result<std::unique_ptr<DeviceMemory>> MakeInputs(const SliceOffer&, uint64_t) {
    return nullptr;
  }
  // For a slice with this memory, which outlives it; `memory.device` is of this engine's MakeInputs. Called
  // on the slice's thread.
  [[nodiscard]] virtual Result<std::unique_ptr<SliceEngine>> MakeSlice(const SliceOffer& offer,
                                                                       const SliceMemory& memory) = 0;
};

[[nodiscard]] Result<std::unique_ptr<Engine>> MakeEmulatedEngine(const std::vector<ModelSpec>& models);

}  // namespace spillway::gateway

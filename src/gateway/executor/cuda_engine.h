// SPDX-License-Identifier: Apache-2.0
// Slices on NVIDIA GPUs: a stream each, the models' weights on the device from the start. A request's inputs
// are used where a gateway on another machine delivered them, if that is the device's memory (MakeInputs), or
// copied by the device from the host's pinned memory; its outputs are copied to where the gateway reads them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "gateway/executor/cuda_driver.h"
#include "gateway/executor/engine.h"

namespace spillway::gateway {

// Where a slice of executor.yaml lies.
struct CudaPlace {
  std::string gpu, slice;  // the offer's names
  std::string device;      // an index, or the uuid of a GPU or of a MIG instance
  int sm_percent = 100;
  std::string where = {};  // FILE:LINE: KEY of the slice; empty: no file
};

// Whether text has the form of a place's device: "0", "GPU-" or "MIG-" and a uuid.
bool IsCudaDevice(const std::string& text);

// The device of each place, in their order. Errors: kBadInput names the place, and what there is;
// kUnavailable: there is no GPU.
[[nodiscard]] Result<std::vector<CudaDevice>> FindCudaDevices(CudaDriver& driver,
                                                              const std::vector<CudaPlace>& places);

// Errors: FindCudaDevices'.
[[nodiscard]] Result<std::unique_ptr<Engine>> MakeCudaEngine(const std::vector<ModelSpec>& models,
                                                             std::vector<CudaPlace> places,
                                                             std::unique_ptr<CudaDriver> driver);

}  // namespace spillway::gateway

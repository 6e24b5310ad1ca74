// SPDX-License-Identifier: Apache-2.0
// Models of GPUs: how fast they are to each other, and whether their memory divides into slices. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace spillway::scheduler {

struct GpuModel {
  std::string name;
  // Work done a second, relative to a T4. Models that nobody knows have 1.
  double speed = 1;
  bool mig = false;            // can be divided by MIG
  double slice_memory_gb = 0;  // of one of its eight memory slices; 0 where it has none
  // Memory slices, 1 to 8. A GPU with fewer than eight is smaller than what jobs' thousandths are counted in:
  // it has a seventh of that compute for each. Only the oracle's clusters have such.
  int slices = 8;
};

// A set of models: bit i is the i-th of the cluster's models. None set: any model will do.
using ModelSet = uint32_t;
inline constexpr int kMaxModels = 31;
// A model that the cluster does not have. A job that names only such fits nowhere.
inline constexpr ModelSet kAbsentModel = ModelSet{1} << 31;

// The models that are known by name, fastest last. Speeds are the vendors' peak rates of dense FP16
// arithmetic, over a T4's: a first guess, that a cluster file may correct.
[[nodiscard]] const std::vector<GpuModel>& KnownModels();

// The known model of that name, or one with speed 1 that cannot be divided.
[[nodiscard]] GpuModel ModelByName(std::string_view name);

}  // namespace spillway::scheduler

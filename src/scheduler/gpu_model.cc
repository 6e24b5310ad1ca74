// SPDX-License-Identifier: Apache-2.0
#include "scheduler/gpu_model.h"

#include <algorithm>

namespace spillway::scheduler {

const std::vector<GpuModel>& KnownModels() {
  // NVIDIA's data sheets, dense FP16: T4 65 TFLOP/s, P100 18.7 to 21.2, V100 112 (PCIe), A10 125, A100 312,
  // H100 989 and H200 989 (SXM). Memory slices: an eighth of 40, 80 and 144 GB.
  static const std::vector<GpuModel> models = {
      {"P100", 0.29, false, 0},    {"T4", 1, false, 0},         {"V100M16", 1.72, false, 0},
      {"V100M32", 1.72, false, 0}, {"A10", 1.92, false, 0},     {"A100-40", 4.8, true, 5},
      {"A100-80", 4.8, true, 10},  {"H100-80", 15.2, true, 10}, {"H200", 15.2, true, 18},
  };
  return models;
}

GpuModel ModelByName(std::string_view name) {
  const auto& known = KnownModels();
  const auto found =
      std::find_if(known.begin(), known.end(), [&](const GpuModel& model) { return model.name == name; });
  return found == known.end() ? GpuModel{std::string(name)} : *found;
}

}  // namespace spillway::scheduler

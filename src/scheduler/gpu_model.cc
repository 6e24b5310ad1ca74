// SPDX-License-Identifier: Apache-2.0
#include "scheduler/gpu_model.h"

#include <algorithm>

namespace spillway::scheduler {

const std::vector<GpuModel>& KnownModels() {
  // Beside each: dense FP16 TFLOP/s, here over the T4's 65, and the document of NVIDIA's that says so. Where
  // forms of a model differ, the one that is named. Memory slices: an eighth of 40, 80 and 144 GB.
  static const std::vector<GpuModel> models = {
      {"P100", 0.29, false, 0},     // PCIe 18.7 (SXM2 21.2): Tesla P100 PCIe data sheet
      {"T4", 1, false, 0},          // 65: T4 Tensor Core GPU data sheet, 951643
      {"V100M16", 1.72, false, 0},  // PCIe 112 (SXM2 125): V100 data sheet, 1165301 r5
      {"V100M32", 1.72, false, 0},  // the same
      {"A10", 1.92, false, 0},      // 125 (250 with sparsity): A10 data sheet
      {"A100-40", 4.8, true, 5},    // 312 (624 with sparsity): A100 data sheet, 1758950 r4
      {"A100-80", 4.8, true, 10},   // the same
      {"H100-80", 15.2, true, 10},  // SXM 989.5, of 1,979 with sparsity (PCIe 756.5): H100 data sheet
      {"H200", 15.2, true, 18},     // SXM 989.5, of 1,979 with sparsity: H200 data sheet
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

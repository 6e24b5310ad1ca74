// SPDX-License-Identifier: Apache-2.0
#include "planner/workload.h"

namespace spillway::planner {

const Group* Workload::Baseline(NodeKind kind) const {
  for (const Group& group : baseline.groups)
    if (group.kind == kind) return &group;
  return nullptr;
}

NodeKind Workload::Workers() const {
  return Baseline(NodeKind::kLiteCompute) != nullptr ? NodeKind::kLiteCompute : NodeKind::kAccelerator;
}

bool UseModel(Workload& workload, const std::string& name) {
  for (const TrainedModel& model : workload.models) {
    if (model.name != name) continue;
    workload.model = name;
    workload.memory.runtime_gb = model.runtime_gb;
    workload.checkpoint.model_gb_per_accelerator = model.gb_per_accelerator;
    workload.host_peak = model.host_peak;
    return true;
  }
  return false;
}

}  // namespace spillway::planner

// SPDX-License-Identifier: Apache-2.0
#include "gateway/broker/gpu_table.h"

#include <algorithm>

namespace spillway::gateway {

std::string GpuTable::IdentityOf(std::string_view host, std::string_view name, std::string_view uuid) {
  if (!uuid.empty()) return std::string(uuid);
  return std::string(host) + "/" + std::string(name);
}

uint32_t GpuTable::Join(const std::string& identity) {
  auto gpu = std::find_if(gpus_.begin(), gpus_.end(),
                          [&](const Gpu& one) { return one.slices > 0 && one.identity == identity; });
  if (gpu == gpus_.end()) {
    gpu = std::find_if(gpus_.begin(), gpus_.end(), [](const Gpu& one) { return one.slices == 0; });
    if (gpu == gpus_.end()) gpu = gpus_.insert(gpus_.end(), Gpu());
    *gpu = {identity, 0, std::vector<Use>(tenants_)};
  }
  gpu->slices++;
  return static_cast<uint32_t>(gpu - gpus_.begin());
}

void GpuTable::Leave(uint32_t gpu) { gpus_[gpu].slices--; }

void GpuTable::Charge(uint32_t gpu, uint32_t tenant, std::chrono::nanoseconds time) {
  Use& use = gpus_[gpu].uses[tenant];
  use.requests++;
  use.time += time;
}

}  // namespace spillway::gateway

// SPDX-License-Identifier: Apache-2.0
// The GPUs that living slices are on, and who had them for how long. A GPU is one GPU, whoever offers slices
// of it and whatever they call it: its identity is its UUID (a MIG instance's is its GPU's) or, where nobody
// knows that, the host and the name there. Pure; not thread-safe. Memory: of GPUs with living slices, no
// others.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace spillway::gateway {

class GpuTable {
 public:
  explicit GpuTable(size_t tenants) : tenants_(tenants) {}

  // `host`: empty is the gateway's own, if its executors do not say which that is. `uuid`: empty is not
  // known.
  [[nodiscard]] static std::string IdentityOf(std::string_view host, std::string_view name,
                                              std::string_view uuid);

  // A slice on it comes; the GPU's number, which it has while it has slices.
  uint32_t Join(const std::string& identity);
  // A slice on it goes.
  void Leave(uint32_t gpu);
  // A slice on it worked on a request of that tenant.
  void Charge(uint32_t gpu, uint32_t tenant, std::chrono::nanoseconds time);

  struct Use {
    uint64_t requests = 0;
    std::chrono::nanoseconds time{0};  // of its slices, added up
  };
  struct Gpu {
    std::string identity;
    uint32_t slices = 0;    // 0: the number is free
    std::vector<Use> uses;  // by tenant, since its first slice came
  };
  // By number.
  [[nodiscard]] const std::vector<Gpu>& gpus() const { return gpus_; }

 private:
  size_t tenants_;
  std::vector<Gpu> gpus_;
};

}  // namespace spillway::gateway

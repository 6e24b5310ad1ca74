// SPDX-License-Identifier: Apache-2.0
#include "gateway/http/tenants_bodies.h"

#include <algorithm>
#include <string>
#include <vector>

#include "base/mutex.h"

namespace spillway::gateway {
namespace {

class TenantsBodies : public api::BodyMemory {
 public:
  TenantsBodies(const GatewayConfig& config, uint64_t most)
      : config_(config), budget_(BudgetOf(config, most)) {}

  [[nodiscard]] uint32_t OwnerOf(const api::Request& head) override {
    return TenantOf(config_, head).value_or(static_cast<uint32_t>(config_.broker.tenants.size()));
  }
  [[nodiscard]] bool HasRoom(uint32_t owner, uint64_t bytes) override {
    const base::MutexLock lock(mutex_);
    return budget_.HasRoom(bytes, {owner});
  }
  void Hold(uint32_t owner, uint64_t bytes) override {
    const base::MutexLock lock(mutex_);
    budget_.Hold(bytes, {owner});
  }
  void Release(uint32_t owner, uint64_t bytes) override {
    const base::MutexLock lock(mutex_);
    budget_.Release(bytes, {owner});
  }

 private:
  static MemoryBudget BudgetOf(const GatewayConfig& config, uint64_t most) {
    std::vector<uint64_t> reserves;
    uint64_t reserved = 0;
    for (const TenantLimits& tenant : config.broker.tenants) {
      reserves.push_back(tenant.reserve);
      reserved += tenant.reserve;
    }
    return {std::max(config.broker.memory, reserved + most), reserves};
  }

  const GatewayConfig& config_;
  base::Mutex mutex_;
  MemoryBudget budget_ SPILLWAY_GUARDED_BY(mutex_);
};

}  // namespace

std::optional<uint32_t> TenantOf(const GatewayConfig& config, const api::Request& request) {
  const auto found = request.headers.find("authorization");
  if (found == request.headers.end()) return AuthenticateByToken(config, "");
  // The scheme's case says nothing (RFC 9110, 11.1).
  constexpr std::string_view kBearer = "bearer ";
  std::string scheme = found->second.substr(0, kBearer.size());
  for (char& c : scheme)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  const size_t begin = found->second.find_first_not_of(' ', kBearer.size());
  if (scheme != kBearer || begin == std::string::npos) return std::nullopt;
  return AuthenticateByToken(config, found->second.substr(begin));
}

std::shared_ptr<api::BodyMemory> BodiesOfTenants(const GatewayConfig& config, uint64_t most) {
  return std::make_shared<TenantsBodies>(config, most);
}

}  // namespace spillway::gateway

// SPDX-License-Identifier: Apache-2.0
// Whose memory is whose: the broker's budgets.
#include <fmt/format.h>

#include <algorithm>

#include "gateway/broker.h"

namespace spillway::gateway {
namespace {

using scheduler::kNobody;

// The memory's shares: tenants, then fronts. An account has up to two of them.
class SharesOf {
 public:
  SharesOf(const Account& account, size_t tenants) {
    if (account.tenant != kNobody) shares_[count_++] = account.tenant;
    if (account.front != Front::kNone) shares_[count_++] = tenants + static_cast<size_t>(account.front);
  }
  operator std::span<const size_t>() const { return std::span(shares_).first(count_); }

 private:
  std::array<size_t, 2> shares_{};
  size_t count_ = 0;
};

}  // namespace

MemoryBudget Broker::MemoryOf(const BrokerOptions& options) {
  std::vector<uint64_t> reserves;
  for (const TenantLimits& tenant : options.tenants) reserves.push_back(tenant.reserve);
  reserves.insert(reserves.end(), options.front_reserves.begin(), options.front_reserves.end());
  return {options.memory, reserves};
}

MemoryBudget Broker::WindowsOf(const BrokerOptions& options) {
  std::vector<uint64_t> reserves;
  for (const TenantLimits& tenant : options.tenants) reserves.push_back(tenant.windows_reserve);
  return {options.windows, reserves};
}

Result<void> Broker::CanFit(uint64_t inputs, uint64_t outputs, const Account& account) const {
  // Of whoever is the best off, where it is not known who asks.
  const uint64_t most = account.tenant == kNobody && account.front == Front::kNone
                            ? memory_.bytes()
                            : memory_.Most(SharesOf(account, queues_.size()));
  if (outputs <= most && inputs <= most - outputs) return {};
  if (most == options_.memory)
    return Fail(ErrorCode::kBadInput,
                fmt::format("{} bytes of inputs and {} of outputs are more than limits.memory, {} bytes",
                            inputs, outputs, options_.memory));
  return Fail(ErrorCode::kBadInput,
              fmt::format("{} bytes of inputs and {} of outputs are more than is not reserved for others of "
                          "limits.memory, {} of {} bytes",
                          inputs, outputs, most, options_.memory));
}

bool Broker::Full(const Account& account, uint64_t bytes) const {
  return (account.tenant != kNobody &&
          queues_[account.tenant].size() >= options_.tenants[account.tenant].queue) ||
         !memory_.HasRoom(bytes, SharesOf(account, queues_.size()));
}

void Broker::Hold(uint64_t bytes, const Account& account) {
  memory_.Hold(bytes, SharesOf(account, queues_.size()));
}

void Broker::Release(uint64_t bytes, const Account& account) {
  memory_.Release(bytes, SharesOf(account, queues_.size()));
}

Result<void> Broker::HoldWindow(uint64_t bytes, uint32_t tenant) {
  const SharesOf shares({tenant}, queues_.size());
  if (const uint64_t most = windows_.Most(shares); bytes > most)
    return Fail(ErrorCode::kBadInput,
                fmt::format("a window of {} bytes is more than {}limits.windows, {} bytes", bytes,
                            most == windows_.bytes() ? "" : "what is not reserved for others of ", most));
  if (!windows_.HasRoom(bytes, shares)) return Fail(ErrorCode::kConflict, "the memory for windows is full");
  windows_.Hold(bytes, shares);
  return {};
}

void Broker::ReleaseWindow(uint64_t bytes, uint32_t tenant) {
  windows_.Release(bytes, SharesOf({tenant}, queues_.size()));
}

}  // namespace spillway::gateway

// SPDX-License-Identifier: Apache-2.0
// Whose memory is whose: the broker's budgets.
#include <fmt/format.h>

#include "gateway/broker/broker.h"

namespace spillway::gateway {
namespace {

using scheduler::kNobody;

}  // namespace

MemoryBudget Broker::MemoryOf(const BrokerOptions& options) {
  std::vector<uint64_t> reserves;
  for (const TenantLimits& tenant : options.tenants) reserves.push_back(tenant.reserve);
  return {options.memory, reserves, options.front_reserves};
}

MemoryBudget Broker::WindowsOf(const BrokerOptions& options) {
  std::vector<uint64_t> reserves;
  for (const TenantLimits& tenant : options.tenants) reserves.push_back(tenant.windows_reserve);
  return {options.windows, reserves};
}

MemoryBudget::Owner Broker::OwnerOf(const Account& account) const {
  return {account.tenant == kNobody ? queues_.size() : account.tenant, account.front};
}

Result<void> Broker::CanFit(uint64_t inputs, uint64_t outputs, const Account& account) const {
  // Of whoever is the best off, where it is not known who asks.
  const uint64_t most = account.tenant == kNobody && account.front == Front::kNone
                            ? memory_.bytes()
                            : memory_.Most(OwnerOf(account));
  if (outputs <= most && inputs <= most - outputs) return {};
  if (most == options_.memory)
    return Fail(ErrorCode::kBadInput,
                fmt::format("{} bytes of inputs and {} of outputs exceed limits.memory, {} bytes", inputs,
                            outputs, options_.memory));
  return Fail(ErrorCode::kBadInput,
              fmt::format("{} bytes of inputs and {} of outputs exceed the unreserved part of limits.memory, "
                          "{} of {} bytes",
                          inputs, outputs, most, options_.memory));
}

bool Broker::HasMemory(const Account& account, uint64_t bytes) const {
  return memory_.HasRoom(bytes, OwnerOf(account));
}

bool Broker::Full(const Account& account, uint64_t bytes) const {
  return (account.tenant != kNobody && queues_[account.tenant].IsFull()) || !HasMemory(account, bytes);
}

void Broker::Hold(uint64_t bytes, const Account& account) { memory_.Hold(bytes, OwnerOf(account)); }

void Broker::Release(uint64_t bytes, const Account& account) { memory_.Release(bytes, OwnerOf(account)); }

Result<void> Broker::HoldWindow(uint64_t bytes, uint32_t tenant) {
  const MemoryBudget::Owner owner = OwnerOf({tenant});
  if (const uint64_t most = windows_.Most(owner); bytes > most)
    return Fail(ErrorCode::kBadInput,
                fmt::format("a window of {} bytes exceeds {}limits.windows, {} bytes", bytes,
                            most == windows_.bytes() ? "" : "the unreserved part of ", most));
  if (!windows_.HasRoom(bytes, owner)) return Fail(ErrorCode::kConflict, "the memory for windows is full");
  windows_.Hold(bytes, owner);
  return {};
}

void Broker::ReleaseWindow(uint64_t bytes, uint32_t tenant) { windows_.Release(bytes, OwnerOf({tenant})); }

}  // namespace spillway::gateway

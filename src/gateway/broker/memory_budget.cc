// SPDX-License-Identifier: Apache-2.0
#include "gateway/broker/memory_budget.h"

#include <algorithm>

namespace spillway::gateway {

MemoryBudget::MemoryBudget(uint64_t bytes, const std::vector<uint64_t>& tenants,
                           const std::array<uint64_t, kFronts>& fronts)
    : bytes_(bytes), beyond_(tenants.size() + 1) {
  for (const uint64_t reserved : tenants) {
    tenants_.push_back({reserved, 0});
    reserved_ += reserved;
  }
  for (size_t i = 0; i < kFronts; i++) {
    fronts_[i].reserved = fronts[i];
    reserved_ += fronts[i];
  }
  unused_ = reserved_;
}

uint64_t MemoryBudget::TenantsPart(uint64_t bytes, const Owner& owner) const {
  return owner.tenant < tenants_.size() ? std::min(tenants_[owner.tenant].Unused(), bytes) : 0;
}

MemoryBudget::Share* MemoryBudget::FrontOf(const Owner& owner) {
  return owner.front == Front::kNone ? nullptr : &fronts_[static_cast<size_t>(owner.front)];
}

uint64_t MemoryBudget::FrontUnused(const Owner& owner) const {
  return owner.front == Front::kNone ? 0 : fronts_[static_cast<size_t>(owner.front)].Unused();
}

bool MemoryBudget::HasRoom(uint64_t bytes, const Owner& owner) const {
  const uint64_t tenants = TenantsPart(bytes, owner);
  const uint64_t fronts = std::min(FrontUnused(owner), bytes - tenants);
  if (held_ > bytes_ || bytes > bytes_ - held_) return false;
  // What lies within its reserves takes nothing of what is kept for others, even if more is held than was
  // agreed to.
  return tenants + fronts == bytes || unused_ - tenants - fronts <= bytes_ - held_ - bytes;
}

uint64_t MemoryBudget::Most(const Owner& owner) const {
  uint64_t others = reserved_;
  if (owner.tenant < tenants_.size()) others -= tenants_[owner.tenant].reserved;
  if (owner.front != Front::kNone) others -= fronts_[static_cast<size_t>(owner.front)].reserved;
  return bytes_ - std::min(others, bytes_);
}

void MemoryBudget::Hold(uint64_t bytes, const Owner& owner) {
  held_ += bytes;
  const uint64_t tenants = TenantsPart(bytes, owner), beyond = bytes - tenants;
  if (tenants > 0) tenants_[owner.tenant].used += tenants;
  unused_ -= tenants + std::min(FrontUnused(owner), beyond);
  beyond_[owner.tenant][static_cast<size_t>(owner.front)] += beyond;
  if (Share* front = FrontOf(owner)) front->used += beyond;
}

void MemoryBudget::Release(uint64_t bytes, const Owner& owner) {
  held_ -= bytes;
  uint64_t& beyond_of = beyond_[owner.tenant][static_cast<size_t>(owner.front)];
  const uint64_t beyond = std::min(bytes, beyond_of), tenants = bytes - beyond;
  beyond_of -= beyond;
  if (Share* front = FrontOf(owner)) {
    unused_ -= front->Unused();
    front->used -= beyond;
    unused_ += front->Unused();
  }
  if (tenants > 0) {
    tenants_[owner.tenant].used -= tenants;
    unused_ += tenants;
  }
}

}  // namespace spillway::gateway

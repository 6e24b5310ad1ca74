// SPDX-License-Identifier: Apache-2.0
#include "gateway/memory_budget.h"

#include <algorithm>

namespace spillway::gateway {

MemoryBudget::MemoryBudget(uint64_t bytes, const std::vector<uint64_t>& reserves) : bytes_(bytes) {
  for (const uint64_t reserved : reserves) {
    shares_.push_back({reserved, 0});
    reserved_ += reserved;
  }
  unused_ = reserved_;
}

// held_ + unused_ <= bytes_ holds before and after each Hold that HasRoom has agreed to, so that a share
// within its reserve always has room.
bool MemoryBudget::HasRoom(uint64_t bytes, std::span<const size_t> shares) const {
  uint64_t unused = unused_;  // once they are held
  for (const size_t share : shares) unused -= std::min(shares_[share].Unused(), bytes);
  if (held_ > bytes_ || bytes > bytes_ - held_) return false;
  return unused <= bytes_ - held_ - bytes;
}

uint64_t MemoryBudget::Most(std::span<const size_t> shares) const {
  uint64_t others = reserved_;
  for (const size_t share : shares) others -= shares_[share].reserved;
  return bytes_ - std::min(others, bytes_);
}

void MemoryBudget::Hold(uint64_t bytes, std::span<const size_t> shares) {
  held_ += bytes;
  for (const size_t share : shares) {
    unused_ -= shares_[share].Unused();
    shares_[share].held += bytes;
    unused_ += shares_[share].Unused();
  }
}

void MemoryBudget::Release(uint64_t bytes, std::span<const size_t> shares) {
  held_ -= bytes;
  for (const size_t share : shares) {
    unused_ -= shares_[share].Unused();
    shares_[share].held -= bytes;
    unused_ += shares_[share].Unused();
  }
}

}  // namespace spillway::gateway

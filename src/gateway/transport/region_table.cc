// SPDX-License-Identifier: Apache-2.0
#include "gateway/transport/region_table.h"

#include <fmt/format.h>

#include "gateway/transport/shared_memory.h"

namespace spillway::gateway {

uint64_t RegionTable::Register(uint64_t holder, std::span<std::byte> memory) {
  uint64_t key = RandomKey();
  while (!Adopt(key, holder, memory)) key = RandomKey();
  return key;
}

bool RegionTable::Adopt(uint64_t key, uint64_t holder, std::span<std::byte> memory) {
  return key != 0 && regions_.try_emplace(key, Region{holder, memory}).second;
}

void RegionTable::ForgetAllOf(uint64_t holder) {
  std::erase_if(regions_, [&](const auto& entry) { return entry.second.holder == holder; });
}

Result<std::span<std::byte>> RegionTable::Find(uint64_t holder, uint64_t key, uint64_t offset,
                                               uint64_t bytes) const {
  const auto found = regions_.find(key);
  if (found == regions_.end() || found->second.holder != holder)
    return Fail(ErrorCode::kBadInput, "this client has no memory registered under that key");
  const auto memory = found->second.memory;
  if (offset > memory.size() || bytes > memory.size() - offset)
    return Fail(ErrorCode::kBadInput, fmt::format("bytes {} to {} + {} are not within a region of {}", offset,
                                                  offset, bytes, memory.size()));
  return memory.subspan(offset, bytes);
}

}  // namespace spillway::gateway

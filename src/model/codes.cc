// SPDX-License-Identifier: Apache-2.0
// Fresh codes first, then the one freed longest ago. Pure.
#include "codes.h"

#include <algorithm>

namespace spillway::model {

std::optional<uint32_t> CodeBook::Assign(const std::string& name) {
  if (auto found = Find(name)) return found;
  uint32_t code;
  if (next_ < capacity_) {
    code = next_++;
  } else if (!freed_.empty()) {
    code = freed_.front();
    freed_.pop_front();
  } else {
    return std::nullopt;
  }
  codes_.emplace(name, code);
  return code;
}

std::optional<uint32_t> CodeBook::Find(const std::string& name) const {
  auto found = codes_.find(name);
  if (found == codes_.end()) return std::nullopt;
  return found->second;
}

void CodeBook::Release(const std::string& name) {
  auto found = codes_.find(name);
  if (found == codes_.end()) return;
  freed_.push_back(found->second);
  codes_.erase(found);
}

bool CodeBook::Restore(const std::string& name, uint32_t code) {
  if (code >= capacity_ || codes_.contains(name)) return false;
  if (code < next_) {
    auto freed = std::find(freed_.begin(), freed_.end(), code);
    if (freed == freed_.end()) return false;
    freed_.erase(freed);
  } else {
    // The gap below was perhaps given out before the restart: treated as freed, so reused last.
    while (next_ < code) freed_.push_back(next_++);
    next_ = code + 1;
  }
  codes_.emplace(name, code);
  return true;
}

void CodeBook::RestoreFreed(const std::vector<uint32_t>& freed) {
  for (const uint32_t code : freed)
    while (next_ <= code && next_ < capacity_) freed_.push_back(next_++);
  for (const uint32_t code : freed) {
    const auto found = std::find(freed_.begin(), freed_.end(), code);
    if (found == freed_.end()) continue;
    freed_.erase(found);
    freed_.push_back(code);
  }
}

}  // namespace spillway::model

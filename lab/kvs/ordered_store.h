// SPDX-License-Identifier: Apache-2.0
// An ordered key-value store in memory, of twice the keys it begins with at most. Thread-safe: readers share,
// a writer excludes.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <shared_mutex>

namespace spillway::lab {

class OrderedStore {
 public:
  // Keys 0 .. keys - 1, each with itself as value.
  explicit OrderedStore(uint64_t keys) : most_(2 * keys) {
    for (uint64_t key = 0; key < keys; key++) values_.emplace_hint(values_.end(), key, key);
  }
  [[nodiscard]] std::optional<uint64_t> Get(uint64_t key) const {
    std::shared_lock lock(mutex_);
    const auto at = values_.find(key);
    return at == values_.end() ? std::nullopt : std::optional(at->second);
  }
  // False: a new key, for which there is no room.
  [[nodiscard]] bool Put(uint64_t key, uint64_t value) {
    std::unique_lock lock(mutex_);
    const auto at = values_.lower_bound(key);
    if (at != values_.end() && at->first == key) {
      at->second = value;
      return true;
    }
    if (values_.size() >= most_) return false;
    values_.emplace_hint(at, key, value);
    return true;
  }
  // The sum of the values of the first `count` keys from `key` on.
  [[nodiscard]] uint64_t Scan(uint64_t key, uint32_t count) const {
    std::shared_lock lock(mutex_);
    uint64_t sum = 0;
    for (auto at = values_.lower_bound(key); at != values_.end() && count > 0; ++at, count--)
      sum += at->second;
    return sum;
  }

 private:
  // The only one of its kind: base::Mutex has no readers, and what these three functions do is seen at once.
  mutable std::shared_mutex mutex_;
  std::map<uint64_t, uint64_t> values_;
  const uint64_t most_;
};

}  // namespace spillway::lab

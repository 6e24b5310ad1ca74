// SPDX-License-Identifier: Apache-2.0
// The memory of clients' windows at the gateway, and which client a request may name it for. A region is
// named by its key alone, and a key opens it to its holder alone: what a tenant says of memory is looked up
// among the regions that were given to that tenant's own session, so that another's region cannot even be
// named. Not thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>

#include "base/error.h"

namespace spillway::gateway {

class RegionTable {
 public:
  // `holder` is a session of a client, or a slice. The key is fresh and hard to guess.
  uint64_t Register(uint64_t holder, std::span<std::byte> memory);
  // A key that somebody else chose, such as an executor for its slice. False: it is in use.
  bool Adopt(uint64_t key, uint64_t holder, std::span<std::byte> memory);
  void Forget(uint64_t key) { regions_.erase(key); }
  void ForgetAllOf(uint64_t holder);

  // kBadInput, with one text for a wrong key and for another's, so that keys cannot be searched for; and when
  // [offset, offset + bytes) is not within the region.
  [[nodiscard]] Result<std::span<std::byte>> Find(uint64_t holder, uint64_t key, uint64_t offset,
                                                  uint64_t bytes) const;
  [[nodiscard]] size_t size() const { return regions_.size(); }

 private:
  struct Region {
    uint64_t holder;
    std::span<std::byte> memory;
  };
  std::unordered_map<uint64_t, Region> regions_;
};

}  // namespace spillway::gateway

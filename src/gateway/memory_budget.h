// SPDX-License-Identifier: Apache-2.0
// Memory that many share, some of it reserved: what a share has not used of its reserve is kept free for it,
// whatever the others ask for; the rest is anybody's. Pure; not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace spillway::gateway {

class MemoryBudget {
 public:
  // `reserves`: bytes of each share; together no more than `bytes`.
  MemoryBudget(uint64_t bytes, const std::vector<uint64_t>& reserves);

  // Each of these is of some shares at a time, none twice; none: nobody's.
  // Whether so many bytes more leave the others' reserves alone.
  [[nodiscard]] bool HasRoom(uint64_t bytes, std::span<const size_t> shares) const;
  // The most that HasRoom would ever say yes to.
  [[nodiscard]] uint64_t Most(std::span<const size_t> shares) const;
  // Whether or not there is room: what has to be kept is kept.
  void Hold(uint64_t bytes, std::span<const size_t> shares);
  void Release(uint64_t bytes, std::span<const size_t> shares);

  [[nodiscard]] uint64_t bytes() const { return bytes_; }
  [[nodiscard]] uint64_t held() const { return held_; }

 private:
  struct Share {
    uint64_t reserved = 0, held = 0;
    [[nodiscard]] uint64_t Unused() const { return reserved > held ? reserved - held : 0; }
  };

  uint64_t bytes_, held_ = 0;
  uint64_t reserved_ = 0, unused_ = 0;  // of all shares
  std::vector<Share> shares_;
};

}  // namespace spillway::gateway

// SPDX-License-Identifier: Apache-2.0
// Accounts for memory that requests, or HTTP bodies that are still being read, share, with reserves for
// tenants and for fronts (frames, HTTP). What a reserve's owner has not used of it is kept free for him,
// whatever the others ask for; the rest is anybody's. Pure; not thread-safe.
//
// A byte is charged to one reserve at most: to its tenant's while that lasts, then to its front's, then to
// nobody's. So what is held and what is kept free are together no more than there is, after each Hold that
// HasRoom has agreed to and after each Release; and a tenant that holds less than its reserve has room for
// the rest of it by whichever front, as a front has that holds less than its own. What is held without
// HasRoom's word takes of what is anybody's, and then of the reserves: of each its owner still gets what
// there is.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace spillway::gateway {

// By which way requests come.
enum class Front : uint8_t { kFrames, kHttp, kNone };
inline constexpr size_t kFronts = 2;

class MemoryBudget {
 public:
  struct Owner {
    size_t tenant;  // the number of tenants: nobody's
    Front front = Front::kNone;
  };

  // `tenants`, `fronts`: bytes of each one's reserve; together no more than `bytes`.
  MemoryBudget(uint64_t bytes, const std::vector<uint64_t>& tenants,
               const std::array<uint64_t, kFronts>& fronts = {});

  // Whether so many bytes more leave the others' reserves alone.
  [[nodiscard]] bool HasRoom(uint64_t bytes, const Owner& owner) const;
  // The most that HasRoom would ever say yes to.
  [[nodiscard]] uint64_t Most(const Owner& owner) const;
  // Whether or not there is room: what has to be kept is kept.
  void Hold(uint64_t bytes, const Owner& owner);
  // Of what the owner holds.
  void Release(uint64_t bytes, const Owner& owner);

  [[nodiscard]] uint64_t bytes() const { return bytes_; }
  [[nodiscard]] uint64_t held() const { return held_; }

 private:
  struct Share {
    uint64_t reserved = 0, used = 0;
    [[nodiscard]] uint64_t Unused() const { return reserved > used ? reserved - used : 0; }
  };
  using ByFront = std::array<uint64_t, kFronts + 1>;

  // Of so many bytes: which part the tenant's reserve takes.
  [[nodiscard]] uint64_t TenantsPart(uint64_t bytes, const Owner& owner) const;
  Share* FrontOf(const Owner& owner);
  [[nodiscard]] uint64_t FrontUnused(const Owner& owner) const;

  uint64_t bytes_, held_ = 0;
  uint64_t reserved_ = 0, unused_ = 0;  // of all shares
  std::vector<Share> tenants_;          // used: at most what is reserved
  std::array<Share, kFronts> fronts_{};
  std::vector<ByFront> beyond_;  // bytes that are not the tenant's reserve's, by tenant, nobody's last
};

}  // namespace spillway::gateway

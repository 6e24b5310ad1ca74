// SPDX-License-Identifier: Apache-2.0
// Memory that the RDMA device reads and writes: pages of its own, zeroed, registered while this lives.
#pragma once

#include <span>

#include "rdma/connection.h"

namespace spillway::gateway {

class PinnedMemory {
 public:
  PinnedMemory() = default;
  PinnedMemory(PinnedMemory&& other) noexcept { *this = std::move(other); }
  PinnedMemory& operator=(PinnedMemory&& other) noexcept {
    std::swap(bytes_, other.bytes_);
    std::swap(registered_, other.registered_);
    return *this;
  }
  ~PinnedMemory();

  // `access`: as ibv_reg_mr's. Errors: kSystem.
  [[nodiscard]] static Result<PinnedMemory> Make(ibv_pd* domain, uint64_t bytes, int access);

  [[nodiscard]] std::span<std::byte> bytes() const { return bytes_; }
  [[nodiscard]] uint64_t Address(uint64_t offset = 0) const {
    return reinterpret_cast<uint64_t>(bytes_.data()) + offset;
  }
  [[nodiscard]] uint32_t local_key() const;
  [[nodiscard]] uint32_t remote_key() const;

 private:
  std::span<std::byte> bytes_;
  rdma::Owned<ibv_mr> registered_;
};

}  // namespace spillway::gateway

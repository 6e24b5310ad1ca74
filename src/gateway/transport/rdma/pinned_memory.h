// SPDX-License-Identifier: Apache-2.0
// Memory that the RDMA device reads and writes: pages of its own, registered while it lives.
#pragma once

#include <cstdint>
#include <span>
#include <utility>

#include "rdma/connection.h"

namespace spillway::gateway {

// Zeroed, and there: to make them takes longer than to register them.
class Pages {
 public:
  Pages() = default;
  Pages(Pages&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}
  Pages& operator=(Pages&& other) noexcept {
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~Pages();

  // Errors: kSystem. Thread-safe.
  [[nodiscard]] static Result<Pages> Make(uint64_t bytes);

  [[nodiscard]] std::span<std::byte> bytes() const { return bytes_; }

 private:
  std::span<std::byte> bytes_;
};

class PinnedMemory {
 public:
  // `access`: as ibv_reg_mr's. The domain outlives it. Errors: kSystem.
  [[nodiscard]] static Result<PinnedMemory> Make(ibv_pd* domain, Pages pages, int access);

  [[nodiscard]] std::span<std::byte> bytes() const { return pages_.bytes(); }
  [[nodiscard]] uint64_t Address(uint64_t offset = 0) const {
    return reinterpret_cast<uint64_t>(bytes().data()) + offset;
  }
  [[nodiscard]] uint32_t local_key() const;
  [[nodiscard]] uint32_t remote_key() const;

 private:
  Pages pages_;
  rdma::Owned<ibv_mr> registered_;
};

}  // namespace spillway::gateway

// SPDX-License-Identifier: Apache-2.0
// What the generator needs of a protocol: get requests out, bring answers to the ledger. Called from the
// generator's thread alone: Open once, then the rest in any order.
#pragma once

#include <cstdint>

#include "base/error.h"
#include "ledger.h"

namespace spillway::load {

class Transport {
 public:
  virtual ~Transport() = default;

  // Opens what can be opened beforehand and registers it with `epoll_fd`; epoll data is the transport's
  // own, below kReservedKey.
  static constexpr std::uint64_t kReservedKey = std::uint64_t{1} << 63;
  [[nodiscard]] virtual Result<void> Open(int epoll_fd) = 0;
  // The run begins: the ledger's times count from start_ns on the monotonic clock.
  virtual void Start(std::int64_t start_ns) = 0;
  // Sends request `id`, or counts why not.
  virtual void Send(std::uint32_t id) = 0;
  virtual void OnEvent(std::uint64_t key, std::uint32_t events) = 0;
  // Called now and then: give up on what is overdue.
  virtual void Expire(std::int64_t now_ns) = 0;
  // How many distinct flows there are, when that is fixed; 0: one per request.
  [[nodiscard]] virtual std::size_t flows() const = 0;
};

}  // namespace spillway::load

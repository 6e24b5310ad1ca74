// SPDX-License-Identifier: Apache-2.0
// TCP connections to spillway-unit, each of which remembers which unit answered it. One thread, inside the
// clients' namespace.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/fd.h"
#include "bench/flood/packet_bed.h"
#include "model/pool.h"

namespace spillway::bench {

class Clients {
 public:
  using Clock = std::chrono::steady_clock;
  // A query each 20 ms; one at the start and one on request; one, and then it closes.
  enum class Habit : uint8_t { kLive, kIdle, kOnce };

  Clients(const model::Address& vip, uint16_t port);
  ~Clients();
  Clients(const Clients&) = delete;
  Clients& operator=(const Clients&) = delete;

  // Errors (kSystem): no socket.
  [[nodiscard]] Result<void> Open(Habit habit);
  // What is due, for about a millisecond.
  void Turn();
  // Each of kLive and kIdle asks once more; what it asked before counts no more.
  void AskAll();

  // Of kLive and kIdle.
  bool AllAnswered() const;
  std::vector<Flood::Victim> Addresses() const;
  size_t Count(Habit habit) const;
  // Of kLive and kIdle: those that broke, changed their unit, or have not been answered.
  size_t Moved() const;
  // Of kOnce: those that are neither answered nor given up.
  bool HasOpening() const;
  size_t Connected() const;

 private:
  struct Link;
  void Ask(Link& link);
  void Hear(Link& link);
  void Break(Link& link);

  const model::Address vip_;
  const uint16_t port_;
  base::Fd epoll_;
  std::vector<std::unique_ptr<Link>> links_;
};

}  // namespace spillway::bench

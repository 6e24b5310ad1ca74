// SPDX-License-Identifier: Apache-2.0
// epoll over a handful of descriptors, and the two that a daemon always has: signals and a timer.
//
// Threading: one thread.
#pragma once

#include <chrono>
#include <functional>
#include <initializer_list>
#include <map>
#include <utility>

#include "base/error.h"
#include "base/fd.h"

namespace spillway::command {

// Blocks `signals` in this thread and those it starts; they arrive at the descriptor instead.
[[nodiscard]] Result<base::Fd> OpenSignals(std::initializer_list<int> signals);
// The next signal waiting there, or 0.
int ReadSignal(const base::Fd& signals);

[[nodiscard]] Result<base::Fd> OpenTimer(std::chrono::milliseconds period);
// Takes note of what has expired, so that the descriptor is quiet until the next period.
void ReadTimer(const base::Fd& timer);

class EventLoop {
 public:
  [[nodiscard]] static Result<EventLoop> Create();
  // `ready` is called when `fd` is readable, as long as it is.
  [[nodiscard]] Result<void> Watch(int fd, std::function<void()> ready);
  // Until Stop() is called from within.
  [[nodiscard]] Result<void> Run();
  void Stop() { running_ = false; }

 private:
  explicit EventLoop(base::Fd epoll) : epoll_(std::move(epoll)) {}

  base::Fd epoll_;
  std::map<int, std::function<void()>> ready_;
  bool running_ = false;
};

}  // namespace spillway::command

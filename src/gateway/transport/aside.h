// SPDX-License-Identifier: Apache-2.0
// Work that takes long, in threads of its own, in the order in which it was asked for, so that the gateway's
// one thread can serve others meanwhile: to make a gigabyte of memory takes a quarter of a second, to free it
// nearly as long, to accept a connection as long as the kernel looks for the peer's address. What nobody
// wants any more is not begun.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <thread>
#include <utility>
#include <vector>

#include "base/mutex.h"

namespace spillway::gateway {

class Aside {
 public:
  using Then =
      std::function<void()>;  // what is to be done with the result, where Take is called; may be none
  using Job = std::function<Then()>;

  // `done`: called in those threads; then there is something to Take.
  Aside(size_t threads, std::function<void()> done);
  // Waits for what has begun. What has not is dropped.
  ~Aside();
  Aside(const Aside&) = delete;
  Aside& operator=(const Aside&) = delete;

  // `ticket`: for Forget.
  void Ask(uint64_t ticket, Job job);
  void Forget(uint64_t ticket);
  [[nodiscard]] std::vector<Then> Take();

 private:
  void Work();

  std::function<void()> done_;
  base::Mutex mutex_;
  base::Condition changed_;
  bool stop_ SPILLWAY_GUARDED_BY(mutex_) = false;
  std::deque<std::pair<uint64_t, Job>> asked_ SPILLWAY_GUARDED_BY(mutex_);  // by ticket
  std::vector<Then> results_ SPILLWAY_GUARDED_BY(mutex_);
  std::vector<std::thread> threads_;  // last: they use the others
};

}  // namespace spillway::gateway

// SPDX-License-Identifier: Apache-2.0
// epoll over many descriptors, each with its handler. One thread, but for Wake().
//
// An event that was fetched belongs to its descriptor's handler as of that moment: whoever closes a
// descriptor while events are handed out calls Forget first, and opens none before the round is over. Else a
// number that is given again would carry the old one's event.
#pragma once

#include <sys/epoll.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/error.h"

namespace spillway::health {

class EventHandler {
 public:
  virtual void OnEvents(int fd, uint32_t events) = 0;  // EPOLLIN and so on

 protected:
  ~EventHandler() = default;
};

class Reactor {
 public:
  [[nodiscard]] static Result<std::unique_ptr<Reactor>> Create();
  ~Reactor();
  Reactor(const Reactor&) = delete;
  Reactor& operator=(const Reactor&) = delete;

  // 0, or an errno. `handler` outlives its descriptor here.
  [[nodiscard]] int Add(int fd, uint32_t events, EventHandler* handler);
  [[nodiscard]] int Change(int fd, uint32_t events);
  void Remove(int fd);
  // The same for a descriptor that is closed right after, from which the kernel takes it out by itself.
  void Forget(int fd);

  static constexpr size_t kMaxEventsAtOnce = 512;
  // Waits for events, Wake() or the time-out. The caller then hands them out. True: more may have come than
  // are fetched at once.
  bool Wait(std::chrono::milliseconds timeout);
  void Dispatch();
  // From any thread: ends the Wait that runs, or the next one.
  void Wake();

 private:
  Reactor(int epoll, int wake) : epoll_(epoll), wake_(wake) {}

  const int epoll_, wake_;
  std::vector<EventHandler*> handlers_;  // by descriptor
  std::vector<epoll_event> events_;
};

}  // namespace spillway::health

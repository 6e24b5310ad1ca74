// SPDX-License-Identifier: Apache-2.0
// epoll over many descriptors, each with its handler. One thread, but for Wake().
//
// A descriptor's number is given again as soon as it is closed, and the kernel may report the old one's
// events still: those that were fetched already, and all while a child that was just started has a copy of
// it. So each registration has a number of its own, and what bears another one is dropped.
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
  // The same for a descriptor that is closed right after: the kernel takes it out by itself.
  void Forget(int fd);

  static constexpr size_t kMaxEventsAtOnce = 512;
  // Waits for events, Wake() or the time-out. The caller then hands them out. True: more may have come than
  // are fetched at once.
  bool Wait(std::chrono::milliseconds timeout);
  void Dispatch();
  // From any thread: ends the Wait that runs, or the next one.
  void Wake();

 private:
  struct Registration {
    EventHandler* handler = nullptr;
    uint32_t number = 0;  // counts this descriptor's registrations, from 1
  };
  static constexpr uint64_t kWakeTag = 0;  // no registration's

  Reactor(int epoll, int wake) : epoll_(epoll), wake_(wake) {}
  // What epoll reports of a descriptor's current registration.
  [[nodiscard]] uint64_t TagOf(int fd) const;

  const int epoll_, wake_;
  std::vector<Registration> handlers_;  // by descriptor
  std::vector<epoll_event> events_;
};

}  // namespace spillway::health

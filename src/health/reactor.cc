// SPDX-License-Identifier: Apache-2.0
#include "reactor.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

namespace spillway::health {

Result<std::unique_ptr<Reactor>> Reactor::Create() {
  const int epoll = epoll_create1(EPOLL_CLOEXEC);
  if (epoll < 0) return Fail(ErrorCode::kSystem, std::string("epoll_create1: ") + std::strerror(errno));
  const int wake = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  std::unique_ptr<Reactor> reactor(new Reactor(epoll, wake));
  epoll_event event{.events = EPOLLIN, .data = {.u64 = kWakeTag}};
  if (wake < 0 || epoll_ctl(epoll, EPOLL_CTL_ADD, wake, &event) != 0)
    return Fail(ErrorCode::kSystem, std::string("eventfd: ") + std::strerror(errno));
  return reactor;
}

Reactor::~Reactor() {
  if (wake_ >= 0) close(wake_);
  close(epoll_);
}

int Reactor::Add(int fd, uint32_t events, EventHandler* handler) {
  const auto index = static_cast<size_t>(fd);
  if (handlers_.size() <= index) handlers_.resize(index * 2 + 64);
  Registration& registration = handlers_[index];
  ++registration.number;
  epoll_event event{.events = events, .data = {.u64 = TagOf(fd)}};
  if (epoll_ctl(epoll_, EPOLL_CTL_ADD, fd, &event) != 0) return errno;
  registration.handler = handler;
  return 0;
}

int Reactor::Change(int fd, uint32_t events) {
  epoll_event event{.events = events, .data = {.u64 = TagOf(fd)}};
  return epoll_ctl(epoll_, EPOLL_CTL_MOD, fd, &event) == 0 ? 0 : errno;
}

void Reactor::Remove(int fd) {
  epoll_ctl(epoll_, EPOLL_CTL_DEL, fd, nullptr);
  Forget(fd);
}

void Reactor::Forget(int fd) {
  if (static_cast<size_t>(fd) < handlers_.size()) handlers_[static_cast<size_t>(fd)].handler = nullptr;
}

uint64_t Reactor::TagOf(int fd) const {
  return uint64_t{handlers_[static_cast<size_t>(fd)].number} << 32U | static_cast<uint32_t>(fd);
}

bool Reactor::Wait(std::chrono::milliseconds timeout) {
  events_.resize(kMaxEventsAtOnce);
  const int count =
      epoll_wait(epoll_, events_.data(), static_cast<int>(events_.size()), static_cast<int>(timeout.count()));
  events_.resize(count < 0 ? 0 : static_cast<size_t>(count));
  return events_.size() == kMaxEventsAtOnce;
}

void Reactor::Dispatch() {
  for (const epoll_event& event : events_) {
    const int fd = static_cast<int>(static_cast<uint32_t>(event.data.u64));
    if (event.data.u64 == kWakeTag) {
      uint64_t wakes;
      [[maybe_unused]] const ssize_t bytes = read(wake_, &wakes, sizeof(wakes));
      continue;
    }
    EventHandler* const handler = handlers_[static_cast<size_t>(fd)].handler;
    if (handler != nullptr && TagOf(fd) == event.data.u64) handler->OnEvents(fd, event.events);
  }
  events_.clear();
}

void Reactor::Wake() {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t bytes = write(wake_, &one, sizeof(one));
}

}  // namespace spillway::health

// SPDX-License-Identifier: Apache-2.0
#include "event_loop.h"

#include <signal.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <cerrno>

#include "base/system_error.h"

namespace spillway::command {
Result<base::Fd> OpenSignals(std::initializer_list<int> signals) {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : signals) sigaddset(&set, signal);
  if (pthread_sigmask(SIG_BLOCK, &set, nullptr) != 0) return FailSystem("pthread_sigmask");
  const int fd = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
  if (fd < 0) return FailSystem("signalfd");
  return base::Fd(fd);
}

int ReadSignal(const base::Fd& signals) {
  signalfd_siginfo info;
  return read(signals.get(), &info, sizeof(info)) == sizeof(info) ? static_cast<int>(info.ssi_signo) : 0;
}

Result<base::Fd> OpenTimer(std::chrono::milliseconds period) {
  const int fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
  if (fd < 0) return FailSystem("timerfd_create");
  const timespec each{.tv_sec = period.count() / 1000, .tv_nsec = period.count() % 1000 * 1000000};
  const itimerspec when{.it_interval = each, .it_value = each};
  base::Fd timer(fd);
  if (timerfd_settime(fd, 0, &when, nullptr) != 0) return FailSystem("timerfd_settime");
  return timer;
}

void ReadTimer(const base::Fd& timer) {
  uint64_t expirations;
  [[maybe_unused]] const ssize_t bytes = read(timer.get(), &expirations, sizeof(expirations));
}

Result<EventLoop> EventLoop::Create() {
  const int fd = epoll_create1(EPOLL_CLOEXEC);
  if (fd < 0) return FailSystem("epoll_create1");
  return EventLoop(base::Fd(fd));
}

Result<void> EventLoop::Watch(int fd, std::function<void()> ready) {
  epoll_event event{.events = EPOLLIN, .data = {.fd = fd}};
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) return FailSystem("epoll_ctl");
  ready_[fd] = std::move(ready);
  return {};
}

Result<void> EventLoop::Run() {
  running_ = true;
  while (running_) {
    epoll_event event;
    const int count = epoll_wait(epoll_.get(), &event, 1, -1);
    if (count < 0 && errno != EINTR) return FailSystem("epoll_wait");
    if (count == 1) ready_.at(event.data.fd)();
  }
  return {};
}

}  // namespace spillway::command

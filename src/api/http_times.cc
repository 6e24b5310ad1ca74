// SPDX-License-Identifier: Apache-2.0
#include "http_times.h"

#include <sys/socket.h>

#include <algorithm>

namespace spillway::api {
namespace {

// A limit is kept to within a quarter of it, or this.
constexpr std::chrono::milliseconds kLeastLook{10}, kMaxLook{1000};

}  // namespace

HttpTimes::HttpTimes(std::chrono::milliseconds most, size_t max_unauthenticated,
                     std::chrono::milliseconds unauthenticated_timeout)
    : most_(most),
      max_unauthenticated_(max_unauthenticated),
      unauthenticated_timeout_(unauthenticated_timeout),
      thread_([this] { Run(); }) {}

HttpTimes::~HttpTimes() {
  {
    const base::MutexLock lock(mutex_);
    stop_ = true;
  }
  changed_.NotifyAll();
  thread_.join();
}

void HttpTimes::Begin(int socket, Clock::duration more) {
  const base::MutexLock lock(mutex_);
  const auto now = Clock::now();
  until_[socket] = now + most_ + more;
  if (max_unauthenticated_ == 0) return;
  unauthenticated_.push_back({socket, now + unauthenticated_timeout_});
  if (unauthenticated_.size() > max_unauthenticated_) Cut(unauthenticated_.front().socket);
}

void HttpTimes::MarkAuthenticated(int socket) {
  const base::MutexLock lock(mutex_);
  EraseUnauthenticated(socket);
}

void HttpTimes::Next(int socket, Clock::duration more) {
  const base::MutexLock lock(mutex_);
  if (const auto found = until_.find(socket); found != until_.end())
    found->second = Clock::now() + most_ + more;
}

void HttpTimes::Pause(int socket) {
  const base::MutexLock lock(mutex_);
  if (const auto found = until_.find(socket); found != until_.end()) found->second = Clock::time_point::max();
}

void HttpTimes::Forget(int socket) {
  const base::MutexLock lock(mutex_);
  until_.erase(socket);
  EraseUnauthenticated(socket);
}

void HttpTimes::EraseUnauthenticated(int socket) {
  std::erase_if(unauthenticated_, [&](const Unauthenticated& one) { return one.socket == socket; });
}

void HttpTimes::Cut(int socket) {
  until_[socket] = Clock::time_point::max();
  EraseUnauthenticated(socket);
  // The server's thread finds it ended and closes it: the socket is its own, and is not closed while this
  // holds the lock.
  shutdown(socket, SHUT_RDWR);
}

void HttpTimes::Run() {
  const auto least = max_unauthenticated_ == 0 ? most_ : std::min(most_, unauthenticated_timeout_);
  const auto look = std::clamp(least / 4, kLeastLook, kMaxLook);
  const base::MutexLock lock(mutex_);
  while (!changed_.WaitFor(mutex_, look, [this]() SPILLWAY_REQUIRES(mutex_) { return stop_; })) {
    const auto now = Clock::now();
    for (const auto& [socket, until] : until_)
      if (until <= now) Cut(socket);
    while (!unauthenticated_.empty() && unauthenticated_.front().until <= now)
      Cut(unauthenticated_.front().socket);
  }
}

}  // namespace spillway::api

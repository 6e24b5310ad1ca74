// SPDX-License-Identifier: Apache-2.0
#include "http_times.h"

#include <sys/socket.h>

#include <algorithm>

namespace spillway::api {
namespace {

// A limit is kept to within a quarter of it, or this.
constexpr std::chrono::milliseconds kLeastLook{10}, kMaxLook{1000};

}  // namespace

HttpTimes::HttpTimes(std::chrono::milliseconds most) : most_(most), thread_([this] { Run(); }) {}

HttpTimes::~HttpTimes() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void HttpTimes::Begin(int socket, Clock::duration more) {
  const std::lock_guard lock(mutex_);
  until_[socket] = Clock::now() + most_ + more;
}

void HttpTimes::Next(int socket, Clock::duration more) {
  const std::lock_guard lock(mutex_);
  if (const auto found = until_.find(socket); found != until_.end())
    found->second = Clock::now() + most_ + more;
}

void HttpTimes::Pause(int socket) {
  const std::lock_guard lock(mutex_);
  if (const auto found = until_.find(socket); found != until_.end()) found->second = Clock::time_point::max();
}

void HttpTimes::Forget(int socket) {
  const std::lock_guard lock(mutex_);
  until_.erase(socket);
}

void HttpTimes::Run() {
  const auto look = std::clamp(most_ / 4, kLeastLook, kMaxLook);
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, look, [this] { return stop_; })) {
    const auto now = Clock::now();
    for (auto& [socket, until] : until_) {
      if (until > now) continue;
      until = Clock::time_point::max();
      // The server's thread finds it ended and closes it: the socket is its own, and is not closed while
      // this holds the lock.
      shutdown(socket, SHUT_RDWR);
    }
  }
}

}  // namespace spillway::api

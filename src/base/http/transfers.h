// SPDX-License-Identifier: Apache-2.0
// Many HTTP transfers at a time, in a loop that somebody else runs: libcurl's multi handle, with its sockets
// in that loop's epoll and its timer in the caller's hands. What each asks is set by libcurl's options.
//
// Threading: the loop's thread.
#pragma once

#include <curl/curl.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

namespace spillway::http {

class Transfer {
 public:
  // How it ended; CURLE_ABORTED_BY_CALLBACK: its socket could not be watched.
  virtual void OnEnd(CURLcode code) = 0;

 protected:
  ~Transfer() = default;
};

// The loop. Events are those of epoll.
class Watcher {
 public:
  // 0 or an errno.
  virtual int Watch(int fd, uint32_t events) = 0;
  virtual int Change(int fd, uint32_t events) = 0;
  virtual void Unwatch(int fd) = 0;

 protected:
  ~Watcher() = default;
};

class Transfers {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  // Keeps so many handles for later.
  Transfers(Watcher& watcher, size_t max_idle);
  ~Transfers();
  Transfers(const Transfers&) = delete;
  Transfers& operator=(const Transfers&) = delete;

  // A handle without settings; nullptr: none to be had.
  CURL* Borrow();
  // Runs it to its end, which `transfer` hears of, after this returned. False: it cannot; `transfer` hears
  // nothing.
  [[nodiscard]] bool Run(CURL* easy, Transfer* transfer);
  // Ends it, if it runs, unheard; the handle is given back.
  void Return(CURL* easy);

  // When libcurl wants to be called, and the call.
  [[nodiscard]] std::optional<TimePoint> deadline() const { return deadline_; }
  void OnDeadline(TimePoint now);
  // A watched descriptor has these events.
  void OnEvents(int fd, uint32_t events);

 private:
  void Act(curl_socket_t socket, int what);
  // 0 in any case: after another value libcurl gives up all transfers for good.
  static int OnSocket(CURL* easy, curl_socket_t socket, int what, void* self, void* known);
  static int OnTimer(CURLM* multi, long timeout_ms, void* self);

  Watcher& watcher_;
  const size_t max_idle_;
  CURLM* multi_;
  std::vector<CURL*> idle_;
  std::map<CURL*, Transfer*> running_;
  std::vector<CURL*> unwatched_;  // epoll would not take their sockets; to be ended
  std::optional<TimePoint> deadline_;
};

}  // namespace spillway::http

// SPDX-License-Identifier: Apache-2.0
// Cuts connections of an HTTP server on which a part of a request takes too long: its head, its body, or the
// answer's way to its client; and unauthenticated ones that stay too long or are too many. libmicrohttpd
// itself knows silence only, which a byte a minute breaks. A thread of its own looks; all functions may be
// called by any.
#pragma once

#include <chrono>
#include <deque>
#include <thread>
#include <unordered_map>

#include "base/mutex.h"

namespace spillway::api {

class HttpTimes {
 public:
  using Clock = std::chrono::steady_clock;
  // A part may take `most`. Unauthenticated connections: at most `max_unauthenticated` (0: any number, for
  // any time), each for `unauthenticated_timeout`.
  HttpTimes(std::chrono::milliseconds most, size_t max_unauthenticated,
            std::chrono::milliseconds unauthenticated_timeout);
  ~HttpTimes();
  HttpTimes(const HttpTimes&) = delete;
  HttpTimes& operator=(const HttpTimes&) = delete;

  // Until Forget, which comes before the socket is closed, `socket` is the connection's. Unauthenticated at
  // first: where these are too many now, the oldest is cut.
  void Begin(int socket, Clock::duration more = {});
  void MarkAuthenticated(int socket);
  // Its next part: may take the limit, and `more`.
  void Next(int socket, Clock::duration more = {});
  // The server has the word: no limit.
  void Pause(int socket);
  void Forget(int socket);

 private:
  struct Unauthenticated {
    int socket;
    Clock::time_point until;
  };
  void Run();
  void Cut(int socket) SPILLWAY_REQUIRES(mutex_);
  void EraseUnauthenticated(int socket) SPILLWAY_REQUIRES(mutex_);

  const std::chrono::milliseconds most_;
  const size_t max_unauthenticated_;
  const std::chrono::milliseconds unauthenticated_timeout_;
  base::Mutex mutex_;
  base::Condition changed_;
  bool stop_ SPILLWAY_GUARDED_BY(mutex_) = false;
  std::unordered_map<int, Clock::time_point> until_ SPILLWAY_GUARDED_BY(mutex_);  // by socket
  std::deque<Unauthenticated> unauthenticated_ SPILLWAY_GUARDED_BY(mutex_);       // the oldest first
  std::thread thread_;
};

}  // namespace spillway::api

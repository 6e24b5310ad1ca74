// SPDX-License-Identifier: Apache-2.0
// Cuts connections of an HTTP server on which a part of a request takes too long: its head, its body, or the
// answer's way to its client. libmicrohttpd itself knows silence only, which a byte a minute breaks. A thread
// of its own looks; all functions may be called by any.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <unordered_map>

namespace spillway::api {

class HttpTimes {
 public:
  using Clock = std::chrono::steady_clock;
  explicit HttpTimes(std::chrono::milliseconds most);
  ~HttpTimes();
  HttpTimes(const HttpTimes&) = delete;
  HttpTimes& operator=(const HttpTimes&) = delete;

  // Until Forget, which comes before the socket is closed, `socket` is the connection's.
  void Begin(int socket, Clock::duration more = {});
  // Its next part: may take the limit, and `more`.
  void Next(int socket, Clock::duration more = {});
  // The server has the word: no limit.
  void Pause(int socket);
  void Forget(int socket);

 private:
  void Run();

  const std::chrono::milliseconds most_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stop_ = false;                                 // under mutex_, as the rest
  std::unordered_map<int, Clock::time_point> until_;  // by socket
  std::thread thread_;
};

}  // namespace spillway::api

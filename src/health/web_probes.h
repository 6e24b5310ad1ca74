// SPDX-License-Identifier: Apache-2.0
// Checks by libcurl: tls (the handshake is done), http and https (status and body). Every check is a
// connection of its own. One thread: the checker's.
#pragma once

#include <curl/curl.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "check_track.h"
#include "probe.h"

namespace spillway::health {

class WebTransfer {
 public:
  // How it ended; CURLE_ABORTED_BY_CALLBACK: its socket could not be watched.
  virtual void OnEnd(CURLcode code) = 0;

 protected:
  ~WebTransfer() = default;
};

// All transfers that run: libcurl's multi handle, its sockets in the reactor, its timer in the caller's
// hands.
class WebSessions final : private EventHandler {
 public:
  explicit WebSessions(Reactor& reactor);
  ~WebSessions();
  WebSessions(const WebSessions&) = delete;
  WebSessions& operator=(const WebSessions&) = delete;

  // A handle without settings; nullptr: none to be had.
  CURL* Borrow();
  // Runs it to its end, which `transfer` hears of, after this returned.
  void Run(CURL* easy, WebTransfer* transfer);
  // Ends it, if it runs, unheard; the handle is given back.
  void Return(CURL* easy);

  // When libcurl wants to be called, and the call.
  std::optional<TimePoint> deadline() const { return deadline_; }
  void OnDeadline(TimePoint now);

 private:
  void OnEvents(int fd, uint32_t events) override;
  void Collect();
  // 0 in any case: after another value libcurl gives up all transfers for good.
  static int OnSocket(CURL* easy, curl_socket_t socket, int what, void* self, void* known);
  static int OnTimer(CURLM* multi, long timeout_ms, void* self);

  Reactor& reactor_;
  CURLM* multi_;
  std::vector<CURL*> idle_;
  std::map<CURL*, WebTransfer*> running_;
  std::vector<CURL*> unwatched_;  // epoll would not take their sockets; to be ended
  std::optional<TimePoint> deadline_;
};

// kTls, kHttp and kHttps.
std::unique_ptr<Probe> MakeWebProbe(const Subject& subject, const model::HealthCheck& check,
                                    WebSessions& sessions, std::function<void(Outcome)> finish);

}  // namespace spillway::health

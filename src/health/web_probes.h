// SPDX-License-Identifier: Apache-2.0
// Checks by libcurl: tls (the handshake is done), http and https (status and body). Every check is a
// connection of its own. One thread: the checker's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "base/http/transfers.h"
#include "check_track.h"
#include "probe.h"

namespace spillway::health {

// The transfers of web probes, in the checker's reactor.
class WebSessions final : private http::Watcher, private EventHandler {
 public:
  explicit WebSessions(Reactor& reactor) : reactor_(reactor), transfers_(*this, kIdleHandles) {}

  http::Transfers& transfers() { return transfers_; }

 private:
  static constexpr size_t kIdleHandles = 64;  // some 5 KiB each

  int Watch(int fd, uint32_t events) override { return reactor_.Add(fd, events, this); }
  int Change(int fd, uint32_t events) override { return reactor_.Change(fd, events); }
  void Unwatch(int fd) override { reactor_.Remove(fd); }
  void OnEvents(int fd, uint32_t events) override { transfers_.OnEvents(fd, events); }

  Reactor& reactor_;
  http::Transfers transfers_;
};

// kTls, kHttp and kHttps.
std::unique_ptr<Probe> MakeWebProbe(const Subject& subject, const model::HealthCheck& check,
                                    WebSessions& sessions, std::function<void(Outcome)> finish);

}  // namespace spillway::health

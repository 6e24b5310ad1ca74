// SPDX-License-Identifier: Apache-2.0
// The kinds of active checks: each Make function makes the Probe of one kind or a few.
#pragma once

#include <sys/socket.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "base/http/transfers.h"
#include "check_track.h"
#include "probe.h"

namespace spillway::health {

// Checks over plain sockets: tcp (a connection is accepted), udp and dns (a datagram is answered).

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t length = 0;
  SocketAddress(const model::Address& address, uint16_t port);
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
};

// Whether an errno tells of this machine's own shortage, not of the other side.
bool IsOwnShortage(int error);

std::unique_ptr<Probe> MakeTcpProbe(const Subject& subject, const model::HealthCheck& check, Reactor& reactor,
                                    std::function<void(Outcome)> finish);
// kDns and kUdp.
std::unique_ptr<Probe> MakeDatagramProbe(const Subject& subject, const model::HealthCheck& check,
                                         Reactor& reactor, std::function<void(Outcome)> finish);

// Checks by libcurl: tls (the handshake is done), http and https (status and body). Every check is a
// connection of its own. One thread: the checker's.

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

// Checks by a command: it passes if the command ends in time with the wanted exit status. It runs as
// spillwayd's user in a process group of its own; the group is killed when the command ends or its time is
// over.
std::unique_ptr<Probe> MakeExecProbe(const Subject& subject, const model::HealthCheck& check,
                                     Reactor& reactor, std::function<void(Outcome)> finish);

}  // namespace spillway::health

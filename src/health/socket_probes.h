// SPDX-License-Identifier: Apache-2.0
// Checks over plain sockets: tcp (a connection is accepted), udp and dns (a datagram is answered).
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <functional>
#include <memory>

#include "probe.h"

namespace spillway::health {

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

}  // namespace spillway::health

// SPDX-License-Identifier: Apache-2.0
// The meter's two programs on an interface: tc filters on clsact, at a priority and handle of their
// own, so that a new agent replaces what a killed one left. Not thread-safe.
#pragma once

#include <string>
#include <utility>

#include "base/error.h"
#include "base/fd.h"

namespace spillway::agent {

// Holds the interface for one agent per network namespace, whatever else the agents share: containers of a
// pod have one network and a /run each. It is an AF_PACKET fanout group that takes one member. Such groups
// are the network namespace's own, need CAP_NET_RAW over it, so that no other user can be in the way (as with
// a name of an abstract socket), and are left when the kernel closes the socket, however the process ends.
class InterfaceLock {
 public:
  // Errors: kConflict: another agent has it; kUnavailable: no CAP_NET_RAW; kSystem.
  [[nodiscard]] static Result<InterfaceLock> Take(const std::string& interface, int ifindex);

 private:
  explicit InterfaceLock(base::Fd socket) : socket_(std::move(socket)) {}
  base::Fd socket_;
};

class TcHook {
 public:
  explicit TcHook(const std::string& interface, int ifindex) : interface_(interface), ifindex_(ifindex) {}
  // Detaches; removes clsact if this agent, or its killed predecessor, brought it and nobody else
  // uses it.
  ~TcHook();
  TcHook(const TcHook&) = delete;
  TcHook& operator=(const TcHook&) = delete;

  [[nodiscard]] Result<void> Attach(int ingress_fd, int egress_fd);
  // Whether both filters are still there.
  [[nodiscard]] bool IsAttached() const;

 private:
  std::string interface_;
  int ifindex_;
  bool brought_clsact_ = false;
  bool attached_ = false;
};

// Whether any filter hangs on the interface's clsact, ingress or egress.
[[nodiscard]] Result<bool> HasTcFilters(int ifindex);

}  // namespace spillway::agent

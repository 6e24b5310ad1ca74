// SPDX-License-Identifier: Apache-2.0
// The meter's two programs on an interface: tc filters on clsact, at a priority and handle of their
// own, so that a new agent replaces what a killed one left. Not thread-safe.
#pragma once

#include <string>

#include "model/error.h"

namespace spillway::agent {

// Holds the interface for one agent per network namespace, by a locked file in a folder that is its owner's
// alone: the kernel lets go of it however the process ends, and no other user can take it.
class InterfaceLock {
 public:
  static constexpr char kFolder[] = "/run/spillway-agent";

  [[nodiscard]] static Result<InterfaceLock> Take(const std::string& interface,
                                                  const std::string& folder = kFolder);
  InterfaceLock(InterfaceLock&& other) noexcept : path_(std::move(other.path_)), fd_(other.fd_) {
    other.fd_ = -1;
  }
  InterfaceLock& operator=(InterfaceLock&&) = delete;
  ~InterfaceLock();

 private:
  InterfaceLock(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}
  std::string path_;
  int fd_;
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

 private:
  std::string interface_;
  int ifindex_;
  bool brought_clsact_ = false;
  bool attached_ = false;
};

// Whether any filter hangs on the interface's clsact, ingress or egress.
[[nodiscard]] Result<bool> HasTcFilters(int ifindex);

}  // namespace spillway::agent

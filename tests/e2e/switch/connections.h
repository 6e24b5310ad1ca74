// SPDX-License-Identifier: Apache-2.0
// TCP connections of the client to a service, on which a question is asked again and again.
#pragma once

#include <atomic>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "lab/testbed/process.h"
#include "model/pool.h"

namespace spillway::e2e {

class Connections {
 public:
  // To port 53: "h1.example.org A"; to any other: GET /unit. Their own ports are below 1024, where no other
  // client's are.
  Connections(const std::string& netns, const model::Address& vip, uint16_t port, size_t count);
  ~Connections();
  Connections(const Connections&) = delete;
  Connections& operator=(const Connections&) = delete;

  const std::string& why_not() const { return why_not_; }  // empty: all are established
  // Of each open one an answer is awaited for 5 s. How many came; the others are closed.
  size_t Ask();
  size_t open() const { return connections_.size(); }
  // Those that end at this process' network namespace are closed. How many were.
  size_t CloseThoseOf(const lab::ProcessId& server);

  // From now on they are asked all the time, by a thread of its own, until Stop or the end.
  void AskAllTheTime();
  void Stop();

 private:
  struct Connection {
    int fd;
    uint16_t port;
  };
  bool AskOn(int fd) const;

  const model::Address vip_;
  const uint16_t port_;
  std::vector<Connection> connections_;  // the thread's while it runs
  std::string why_not_;
  std::atomic<bool> stop_ = false;
  std::thread thread_;
};

}  // namespace spillway::e2e

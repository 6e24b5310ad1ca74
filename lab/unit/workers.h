// SPDX-License-Identifier: Apache-2.0
// What a request costs at a unit. A server hands each request that it reads to its workers, and sends
// each answer when they say that it is done: EmulatedWorkers reckon the time, those of lab/compute work.
// All is called from the server's thread.
#pragma once

#include <netinet/in.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "base/socket_address.h"
#include "wire.h"

namespace spillway::unit {

// Where an answer goes: a datagram's sender, or a TCP connection by its serial number (a connection that
// has gone takes its answers with it).
struct ReturnPath {
  int udp_fd = -1;  // -1: TCP
  base::SocketAddress peer;
  in6_pktinfo local6{};  // the address the request was sent to; used when the socket is bound to any
  in_pktinfo local4{};
  std::uint64_t connection = 0;
};

// A request on its way through a unit, with the answer that it is to become.
struct Job {
  Request request;
  std::int64_t arrived_ns = 0;  // at the kernel
  ReturnPath path;
  std::string bytes;  // of the answer: room for its head, then the payload as it came

  // Filled in by the workers.
  std::int64_t wait_ns = 0, service_ns = 0;
  std::int64_t due_ns = 0;   // when the answer should leave
  std::uint64_t result = 0;  // what was computed; 0 where nothing is
};

class Workers {
 public:
  virtual ~Workers() = default;

  [[nodiscard]] virtual std::size_t count() const = 0;

  // False: every worker is busy and the queue is full, the request is lost.
  [[nodiscard]] virtual bool Take(Job job) = 0;

  // A job whose answer is to leave by now_ns, in order of that time; the fields that workers fill in are.
  [[nodiscard]] virtual std::optional<Job> TakeDone(std::int64_t now_ns) = 0;

  // When TakeDone will have the next; nullopt: there is none, or it is not known, and done_fd signals it.
  [[nodiscard]] virtual std::optional<std::int64_t> NextDueNs() const = 0;

  // Readable once TakeDone has a job whose time could not be predicted; TakeDone makes it unreadable again
  // when it has no more. -1: all times are predicted.
  [[nodiscard]] virtual int done_fd() const = 0;

  // How many requests wait at now_ns, those in service not counted.
  [[nodiscard]] virtual std::size_t Waiting(std::int64_t now_ns) = 0;
};

}  // namespace spillway::unit

// SPDX-License-Identifier: Apache-2.0
// What a request costs at a unit. A server hands each request that it reads to its workers, and sends
// each answer when they say that it is done: EmulatedWorkers reckon the time, those of lab/compute work.
// All is called from the server's thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "job.h"

namespace spillway::unit {

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

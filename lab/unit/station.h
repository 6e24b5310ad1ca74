// SPDX-License-Identifier: Apache-2.0
// A queueing station: k equal workers, one first-come-first-served queue of bounded length. Pure: time
// comes in, and because a request's service time is known when it arrives, so is its whole visit.
// Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <queue>
#include <vector>

namespace spillway::unit {

struct Visit {
  std::int64_t start_ns;  // a worker takes the request
  std::int64_t done_ns;   // and is free again
};

class Station {
 public:
  // At most `queue_limit` requests wait at a time, those in service not counted. workers >= 1.
  Station(std::size_t workers, std::size_t queue_limit);

  // A request arrives at now_ns and needs service_ns of one worker. nullopt: every worker is busy and
  // the queue is full, the request is lost. A time before the last arrival's counts as that one.
  [[nodiscard]] std::optional<Visit> Arrive(std::int64_t now_ns, std::int64_t service_ns);

  // How many wait at now_ns (not before the last arrival).
  [[nodiscard]] std::size_t Waiting(std::int64_t now_ns);

 private:
  std::size_t queue_limit_;
  std::int64_t last_ns_;
  // When each worker is next free, given all that were admitted.
  std::priority_queue<std::int64_t, std::vector<std::int64_t>, std::greater<>> free_at_;
  std::queue<std::int64_t> starts_;  // of requests that wait; ascending, as service is in order of arrival
};

}  // namespace spillway::unit

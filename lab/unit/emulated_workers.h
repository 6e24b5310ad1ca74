// SPDX-License-Identifier: Apache-2.0
// Workers that burn no CPU: a request's wait and service are computed when it arrives, and its answer is
// due when they are over. Not thread-safe.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <queue>
#include <random>
#include <vector>

#include "workers.h"

namespace spillway::unit {

// Service times from a distribution. The same seed gives the same times on any machine (the standard
// library's distributions do not promise that). Not thread-safe.

enum class Distribution { kConstant, kExponential, kLognormal };

class ServiceTime {
 public:
  // cv: standard deviation over mean, for kLognormal only (0: constant).
  ServiceTime(Distribution distribution, std::chrono::nanoseconds mean, double cv, std::uint64_t seed);

  [[nodiscard]] std::int64_t NextNs();

 private:
  [[nodiscard]] double Uniform();  // in [0, 1)

  Distribution distribution_;
  double mean_ns_;
  double mu_ = 0, sigma_ = 0;
  std::mt19937_64 random_;
};

// A queueing station: k equal workers, one first-come-first-served queue of bounded length. Pure: time
// comes in, and because a request's service time is known when it arrives, so is its whole visit.
// Not thread-safe.

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

// Jobs whose answers wait for their time to leave. Not thread-safe.
class Pending {
 public:
  void Add(Job job);
  // The earliest, if its time has come; of those due at the same time the one added first.
  [[nodiscard]] std::optional<Job> TakeDue(std::int64_t now_ns);
  [[nodiscard]] std::optional<std::int64_t> NextDueNs() const;

 private:
  struct Entry {
    std::uint64_t order;
    Job job;
  };
  static bool Later(const Entry& a, const Entry& b);

  std::uint64_t added_ = 0;
  std::vector<Entry> heap_;  // earliest first
};

struct EmulatedSettings {
  std::size_t workers = 1;
  std::size_t queue_limit = 1024;  // requests that wait; the next is lost
  Distribution distribution = Distribution::kConstant;
  std::chrono::nanoseconds service{std::chrono::milliseconds(1)};  // mean per request, at cost 1
  double cv = 0;                                                   // of kLognormal
  std::chrono::nanoseconds extra_latency{0};  // added to every answer, occupying no worker
  std::uint64_t seed = 1;
};

class EmulatedWorkers : public Workers {
 public:
  explicit EmulatedWorkers(const EmulatedSettings& settings);

  std::size_t count() const override { return settings_.workers; }
  bool Take(Job job) override;
  std::optional<Job> TakeDone(std::int64_t now_ns) override { return pending_.TakeDue(now_ns); }
  std::optional<std::int64_t> NextDueNs() const override { return pending_.NextDueNs(); }
  int done_fd() const override { return -1; }
  std::size_t Waiting(std::int64_t now_ns) override { return station_.Waiting(now_ns); }

 private:
  const EmulatedSettings settings_;
  ServiceTime service_time_;
  Station station_;
  Pending pending_;
};

}  // namespace spillway::unit

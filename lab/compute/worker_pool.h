// SPDX-License-Identifier: Apache-2.0
// Workers that work: k threads and one first-come-first-served queue of bounded length. A job waits until
// a thread takes it; its answer is due when the thread is done with it.
// As for all unit::Workers, one thread calls; the pool's own threads only compute.
#pragma once

#include <condition_variable>
#include <deque>
#include <memory>
#include <optional>
#include <stop_token>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/mutex.h"
#include "computation.h"
#include "lab/unit/workers.h"

namespace spillway::compute {

struct PoolSettings {
  std::size_t workers = 1;
  std::size_t queue_limit = 1024;  // requests that wait; the next is lost
};

class WorkerPool : public unit::Workers {
 public:
  // Errors: kSystem.
  [[nodiscard]] static Result<std::unique_ptr<WorkerPool>> Start(const PoolSettings& settings,
                                                                 std::unique_ptr<Computation> computation);
  // Jobs that wait or are done are dropped; those in service are stopped and waited for.
  ~WorkerPool() override;
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  std::size_t count() const override { return settings_.workers; }
  bool Take(unit::Job job) override;
  std::optional<unit::Job> TakeDone(std::int64_t now_ns) override;
  std::optional<std::int64_t> NextDueNs() const override { return std::nullopt; }
  int done_fd() const override { return done_fd_; }
  std::size_t Waiting(std::int64_t now_ns) override;

 private:
  WorkerPool(const PoolSettings& settings, std::unique_ptr<Computation> computation, int done_fd);
  void Work(std::size_t worker);

  const PoolSettings settings_;
  const std::unique_ptr<Computation> computation_;
  const int done_fd_;
  std::stop_source stop_;
  base::Mutex mutex_;
  std::condition_variable_any queued_;
  std::deque<unit::Job> queue_ SPILLWAY_GUARDED_BY(mutex_), done_ SPILLWAY_GUARDED_BY(mutex_);
  std::size_t in_service_ SPILLWAY_GUARDED_BY(mutex_) = 0;
  bool told_ SPILLWAY_GUARDED_BY(mutex_) = false;  // done_fd_ is readable
  std::vector<std::jthread> threads_;
};

}  // namespace spillway::compute

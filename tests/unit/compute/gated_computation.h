// SPDX-License-Identifier: Apache-2.0
// A computation that ends when a test says so, and a pool's jobs and answers in a test's words.
#pragma once

#include <poll.h>

#include <condition_variable>
#include <map>
#include <mutex>
#include <set>
#include <vector>

#include "lab/compute/worker_pool.h"

namespace spillway::compute {

// Shared by the test and by the computation, which the pool owns.
class Gate {
 public:
  // Lets the worker that has, or will have, this question end.
  void Open(std::uint32_t question) {
    const std::lock_guard lock(mutex_);
    open_.insert(question);
    changed_.notify_all();
  }
  // Until so many questions have reached a worker, all told.
  void AwaitStarted(std::size_t questions) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return started_.size() >= questions; });
  }
  std::vector<std::uint32_t> started() const {
    const std::lock_guard lock(mutex_);
    return started_;
  }
  std::size_t most_at_a_time() const {
    const std::lock_guard lock(mutex_);
    return most_;
  }
  void Pass(std::uint32_t question, const std::stop_token& stop) {
    std::unique_lock lock(mutex_);
    started_.push_back(question);
    most_ = std::max(most_, ++inside_);
    changed_.notify_all();
    changed_.wait(lock, stop, [&] { return open_.count(question) != 0; });
    --inside_;
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable_any changed_;
  std::set<std::uint32_t> open_;
  std::vector<std::uint32_t> started_;  // in this order
  std::size_t inside_ = 0, most_ = 0;
};

// The result is the question plus a thousand.
class GatedComputation : public Computation {
 public:
  explicit GatedComputation(Gate& gate) : gate_(gate) {}
  std::uint64_t Answer(std::size_t, std::uint32_t question, std::uint32_t,
                       const std::stop_token& stop) override {
    gate_.Pass(question, stop);
    return question + 1000;
  }

 private:
  Gate& gate_;
};

inline unit::Job JobOf(std::uint32_t question) {
  unit::Job job;
  job.request.id = question;
  return job;
}

// Waits until the pool tells that a job is done, and takes it.
inline unit::Job AwaitDone(WorkerPool& pool) {
  for (;;) {
    if (auto job = pool.TakeDone(0)) return std::move(*job);
    pollfd done{pool.done_fd(), POLLIN, 0};
    (void)::poll(&done, 1, -1);
  }
}

inline bool SaysDone(const WorkerPool& pool) {
  pollfd done{pool.done_fd(), POLLIN, 0};
  return ::poll(&done, 1, 0) == 1;
}

}  // namespace spillway::compute

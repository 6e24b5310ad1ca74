// SPDX-License-Identifier: Apache-2.0
#include "worker_pool.h"

#include <fmt/format.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

#include "lab/unit/clock.h"

namespace spillway::compute {

Result<std::unique_ptr<WorkerPool>> WorkerPool::Start(const PoolSettings& settings,
                                                      std::unique_ptr<Computation> computation) {
  const int done_fd = ::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  if (done_fd < 0) return Fail(ErrorCode::kSystem, fmt::format("eventfd: {}", std::strerror(errno)));
  std::unique_ptr<WorkerPool> pool(new WorkerPool(settings, std::move(computation), done_fd));
  try {
    for (std::size_t i = 0; i < settings.workers; ++i)
      pool->threads_.emplace_back(&WorkerPool::Work, pool.get(), i);
  } catch (const std::system_error& error) {
    return Fail(ErrorCode::kSystem, fmt::format("start worker {} of {}: {}", pool->threads_.size() + 1,
                                                settings.workers, error.what()));
  }
  return pool;
}

WorkerPool::WorkerPool(const PoolSettings& settings, std::unique_ptr<Computation> computation, int done_fd)
    : settings_(settings), computation_(std::move(computation)), done_fd_(done_fd) {}

WorkerPool::~WorkerPool() {
  stop_.request_stop();
  threads_.clear();
  ::close(done_fd_);
}

bool WorkerPool::Take(unit::Job job) {
  {
    const base::MutexLock lock(mutex_);
    // As many of the queue as workers are idle do not wait: they are only not yet taken.
    if (queue_.size() >= settings_.queue_limit + (settings_.workers - in_service_)) return false;
    queue_.push_back(std::move(job));
  }
  queued_.notify_one();
  return true;
}

std::optional<unit::Job> WorkerPool::TakeDone(std::int64_t) {
  const base::MutexLock lock(mutex_);
  if (done_.empty()) {
    if (std::uint64_t ignored; std::exchange(told_, false)) (void)!::read(done_fd_, &ignored, sizeof ignored);
    return std::nullopt;
  }
  unit::Job job = std::move(done_.front());
  done_.pop_front();
  return job;
}

std::size_t WorkerPool::Waiting(std::int64_t) {
  const base::MutexLock lock(mutex_);
  const std::size_t idle = settings_.workers - in_service_;
  return queue_.size() - std::min(queue_.size(), idle);
}

void WorkerPool::Work(std::size_t worker) {
  const std::stop_token stop = stop_.get_token();
  base::MutexLock lock(mutex_);
  const auto has_work = [this]() SPILLWAY_REQUIRES(mutex_) { return !queue_.empty(); };
  while (queued_.wait(mutex_, stop, has_work) && !stop.stop_requested()) {
    unit::Job job = std::move(queue_.front());
    queue_.pop_front();
    ++in_service_;
    lock.Unlock();
    const std::int64_t start = unit::MonotonicNs();
    job.wait_ns = start - job.arrived_ns;
    job.result = computation_->Answer(worker, job.request.id, job.request.cost_milli, stop);
    lock.Lock();
    // Under the lock, so that jobs are done in order of these times.
    job.due_ns = unit::MonotonicNs();
    job.service_ns = job.due_ns - start;
    --in_service_;
    done_.push_back(std::move(job));
    if (!std::exchange(told_, true)) (void)::eventfd_write(done_fd_, 1);
  }
}

}  // namespace spillway::compute

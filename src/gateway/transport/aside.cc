// SPDX-License-Identifier: Apache-2.0
#include "gateway/transport/aside.h"

namespace spillway::gateway {

Aside::Aside(size_t threads, std::function<void()> done) : done_(std::move(done)) {
  for (size_t i = 0; i < threads; i++) threads_.emplace_back([this] { Work(); });
}

Aside::~Aside() {
  {
    const base::MutexLock lock(mutex_);
    stop_ = true;
  }
  changed_.NotifyAll();
  for (std::thread& thread : threads_) thread.join();
}

void Aside::Ask(uint64_t ticket, Job job) {
  {
    const base::MutexLock lock(mutex_);
    asked_.emplace_back(ticket, std::move(job));
  }
  changed_.NotifyOne();
}

void Aside::Forget(uint64_t ticket) {
  const base::MutexLock lock(mutex_);
  std::erase_if(asked_, [&](const auto& one) { return one.first == ticket; });
}

std::vector<Aside::Then> Aside::Take() {
  const base::MutexLock lock(mutex_);
  return std::exchange(results_, {});
}

void Aside::Work() {
  for (;;) {
    Job job;
    {
      const base::MutexLock lock(mutex_);
      changed_.Wait(mutex_, [this]() SPILLWAY_REQUIRES(mutex_) { return stop_ || !asked_.empty(); });
      if (stop_) return;
      job = std::move(asked_.front().second);
      asked_.pop_front();
    }
    Then then = job();
    if (!then) continue;
    {
      const base::MutexLock lock(mutex_);
      results_.push_back(std::move(then));
    }
    done_();
  }
}

}  // namespace spillway::gateway

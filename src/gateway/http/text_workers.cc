// SPDX-License-Identifier: Apache-2.0
#include "gateway/http/text_workers.h"

#include <sys/resource.h>

#include <system_error>
#include <utility>

namespace spillway::gateway {
namespace {

constexpr int kNice = 5;  // behind the gateway's thread and HTTP's, which all tenants wait for

}  // namespace

class TextWorkers::Worker {
 public:
  Worker() : thread_([this] { Run(); }) {}
  ~Worker() {
    {
      const base::MutexLock lock(mutex_);
      stop_ = true;
    }
    changed_.NotifyOne();
    thread_.join();
  }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  void Do(Kind kind, std::function<void()> job) SPILLWAY_EXCLUDES(mutex_) {
    {
      const base::MutexLock lock(mutex_);
      (kind == Kind::kAnswer ? answers_ : requests_).push_back(std::move(job));
    }
    changed_.NotifyOne();
  }

 private:
  void Run() SPILLWAY_EXCLUDES(mutex_) {
    setpriority(PRIO_PROCESS, 0, kNice);  // of this thread alone, on Linux
    for (;;) {
      std::function<void()> job;
      {
        const base::MutexLock lock(mutex_);
        changed_.Wait(mutex_, [this]() SPILLWAY_REQUIRES(mutex_) {
          return stop_ || !answers_.empty() || !requests_.empty();
        });
        if (stop_) return;
        auto& next = answers_.empty() ? requests_ : answers_;
        job = std::move(next.front());
        next.pop_front();
      }
      job();
    }
  }

  base::Mutex mutex_;
  base::Condition changed_;
  std::deque<std::function<void()>> answers_ SPILLWAY_GUARDED_BY(mutex_), requests_
      SPILLWAY_GUARDED_BY(mutex_);
  bool stop_ SPILLWAY_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

TextWorkers::TextWorkers() = default;
TextWorkers::~TextWorkers() = default;

void TextWorkers::Do(uint32_t tenant, Kind kind, std::function<void()> job) {
  if (Worker* const worker = WorkerOf(tenant)) return worker->Do(kind, std::move(job));
  job();
}

TextWorkers::Worker* TextWorkers::WorkerOf(uint32_t tenant) {
  const base::MutexLock lock(mutex_);
  if (const auto found = workers_.find(tenant); found != workers_.end()) return found->second.get();
  try {
    return workers_.emplace(tenant, std::make_unique<Worker>()).first->second.get();
  } catch (const std::system_error&) {
    return nullptr;
  }
}

}  // namespace spillway::gateway

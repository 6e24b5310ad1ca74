// SPDX-License-Identifier: Apache-2.0
#include "gateway/http/text_worker.h"

#include <utility>

namespace spillway::gateway {

TextWorker::TextWorker() : thread_([this] { Run(); }) {}

TextWorker::~TextWorker() {
  {
    const base::MutexLock lock(mutex_);
    stop_ = true;
  }
  changed_.NotifyOne();
  thread_.join();
}

void TextWorker::Do(uint32_t tenant, std::function<void()> job) {
  {
    const base::MutexLock lock(mutex_);
    waiting_[tenant].push_back(std::move(job));
  }
  changed_.NotifyOne();
}

void TextWorker::Run() {
  for (;;) {
    std::function<void()> job;
    {
      const base::MutexLock lock(mutex_);
      changed_.Wait(mutex_, [this]() SPILLWAY_REQUIRES(mutex_) { return stop_ || !waiting_.empty(); });
      if (stop_) return;
      job = Next();
    }
    job();
  }
}

std::function<void()> TextWorker::Next() {
  auto turn = waiting_.upper_bound(last_tenant_);
  if (turn == waiting_.end()) turn = waiting_.begin();
  last_tenant_ = turn->first;
  std::function<void()> job = std::move(turn->second.front());
  turn->second.pop_front();
  if (turn->second.empty()) waiting_.erase(turn);
  return job;
}

}  // namespace spillway::gateway

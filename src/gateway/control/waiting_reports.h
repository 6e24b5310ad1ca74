// SPDX-License-Identifier: Apache-2.0
// Reports of hosts on their way to the controller's thread. Each tells all, so of one node agent's only the
// newest waits: however many come between two turns, one is worked. Any thread.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <tl/expected.hpp>
#include <utility>

#include "base/mutex.h"
#include "scheduler/controller/host_message.h"

namespace spillway::gateway {

class WaitingReports {
 public:
  using Answer = std::function<void(const Result<scheduler::HostOrders>&)>;
  // Of an agent that calls itself another's host nothing is known yet: it replaces none of that one's.
  using Key = std::pair<std::string, std::string>;  // host, agent
  struct Waiting {
    scheduler::HostReport report;
    Answer answer;
  };

  // True: none of that key waited, so that somebody is to Take it. Else the one that did is answered with
  // kConflict.
  [[nodiscard]] bool Put(const Key& key, Waiting waiting) {
    std::optional<Waiting> replaced;
    {
      const base::MutexLock lock(mutex_);
      const auto [at, is_first] = waiting_.try_emplace(key);
      if (!is_first) replaced = std::move(at->second);
      at->second = std::move(waiting);
    }
    if (replaced) replaced->answer(Replaced(key.first));
    return !replaced;
  }
  [[nodiscard]] Waiting Take(const Key& key) {
    const base::MutexLock lock(mutex_);
    return std::move(waiting_.extract(key).mapped());
  }
  // What an older request of the host is answered with.
  [[nodiscard]] static tl::unexpected<Error> Replaced(const std::string& host) {
    return Fail(ErrorCode::kConflict, "host " + host + ": answered by a newer request of this host");
  }

 private:
  base::Mutex mutex_;
  std::map<Key, Waiting> waiting_ SPILLWAY_GUARDED_BY(mutex_);
};

}  // namespace spillway::gateway

// SPDX-License-Identifier: Apache-2.0
// What a session under test has around it: the bed's clock and broker; nobody is told, and every tenant let
// in. The test's thread is the gateway's.
#pragma once

#include <functional>
#include <string_view>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "broker_bed.h"
#include "gateway/session.h"

namespace spillway::gateway {

// What is to be done on the gateway's thread.
class Posts {
 public:
  void Add(std::function<void()> work) SPILLWAY_EXCLUDES(mutex_) {
    {
      const base::MutexLock lock(mutex_);
      work_.push_back(std::move(work));
    }
    came_.NotifyOne();
  }
  // What has come.
  void Run() SPILLWAY_EXCLUDES(mutex_) {
    for (const auto& piece : Take(false)) piece();
  }
  // Whatever comes, until `done`.
  template <class Done>
  void RunUntil(Done done) SPILLWAY_EXCLUDES(mutex_) {
    while (!done())
      for (const auto& piece : Take(true)) piece();
  }

 private:
  std::vector<std::function<void()>> Take(bool waits) SPILLWAY_EXCLUDES(mutex_) {
    const base::MutexLock lock(mutex_);
    if (waits) came_.Wait(mutex_, [this]() SPILLWAY_REQUIRES(mutex_) { return !work_.empty(); });
    return std::exchange(work_, {});
  }

  base::Mutex mutex_;
  base::Condition came_;
  std::vector<std::function<void()>> work_ SPILLWAY_GUARDED_BY(mutex_);
};

// Windows' memory of a bed's broker.
struct WindowMemoryBed {
  explicit WindowMemoryBed(BrokerBed& bed, size_t most_ended = 256)
      : memory(bed.broker, most_ended, [this](std::function<void()> work) { posts.Add(std::move(work)); }) {}

  // Until all is free that was given up.
  void UntilFreed() {
    bool is_freed = false;
    memory.WhenFreed([&is_freed] { is_freed = true; });
    posts.RunUntil([&is_freed] { return is_freed; });
  }

  Posts posts;
  WindowMemory memory;
};

// All of them outlive the host.
inline SessionHost HostOf(const GatewayConfig& config, BrokerBed& bed, RegionTable& regions,
                          WindowMemoryBed& windows, WindowListener* remote_windows = nullptr) {
  return {config,
          bed.broker,
          regions,
          [&bed] { return bed.now; },
          [](uint64_t) {},
          [](uint64_t, std::string_view) {},
          [](uint32_t) { return true; },
          windows.memory,
          remote_windows};
}

}  // namespace spillway::gateway

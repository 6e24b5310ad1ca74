// SPDX-License-Identifier: Apache-2.0
#include "bench/gateway/background_load.h"

#include <pthread.h>
#include <sched.h>
#include <time.h>

#include <chrono>
#include <random>

namespace spillway::bench {
namespace {

constexpr int kThreads = 4;
constexpr double kBurstNs = 500e3;  // mean

}  // namespace

void PinTo(int cpu) {
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  CPU_SET(static_cast<size_t>(cpu), &cpus);
  pthread_setaffinity_np(pthread_self(), sizeof(cpus), &cpus);
}

uint64_t ThreadCpuNs() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

BackgroundLoad::BackgroundLoad(int cpu, double share) {
  if (share <= 0) return;
  for (int i = 0; i < kThreads; i++) {
    threads_.emplace_back([this, cpu, share, i] {
      PinTo(cpu);
      std::mt19937_64 random(static_cast<uint64_t>(i) + 1);
      std::exponential_distribution<double> length(1);
      const double own = share / kThreads;
      while (!stop_.load(std::memory_order_relaxed)) {
        // Of CPU time, not of the clock: what it did not get for others' sake it still wants.
        const uint64_t end = ThreadCpuNs() + static_cast<uint64_t>(kBurstNs * length(random));
        while (ThreadCpuNs() < end) {
        }
        std::this_thread::sleep_for(
            std::chrono::nanoseconds(static_cast<int64_t>(kBurstNs * (1 / own - 1) * length(random))));
      }
    });
  }
}

BackgroundLoad::~BackgroundLoad() {
  stop_.store(true);
  for (std::thread& thread : threads_) thread.join();
}

}  // namespace spillway::bench

// SPDX-License-Identifier: Apache-2.0
// Work of others on a CPU: threads that are busy for bursts of random length and idle between them, so that
// together they take a share of it. Starts with the constructor, ends with the destructor.
#pragma once

#include <sched.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>
#include <vector>

namespace spillway::bench {

// Runs the calling thread on `cpu` from here on.
void PinTo(int cpu);
// CPU time of the calling thread so far, ns.
uint64_t ThreadCpuNs();

// Stays awake until `ready` says so, or so long; others who want the CPU have it at every turn.
template <class Ready>
void SpinFor(std::chrono::microseconds spin, Ready ready) {
  if (spin.count() == 0) return;
  const auto end = std::chrono::steady_clock::now() + spin;
  while (!ready() && std::chrono::steady_clock::now() < end) sched_yield();
}

class BackgroundLoad {
 public:
  // `share` of one CPU, 0..1: by four threads, a quarter of it each.
  BackgroundLoad(int cpu, double share);
  ~BackgroundLoad();
  BackgroundLoad(const BackgroundLoad&) = delete;
  BackgroundLoad& operator=(const BackgroundLoad&) = delete;

 private:
  std::atomic<bool> stop_{false};
  std::vector<std::thread> threads_;
};

}  // namespace spillway::bench

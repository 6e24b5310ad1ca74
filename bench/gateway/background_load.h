// SPDX-License-Identifier: Apache-2.0
// Work of others on a CPU: threads that are busy for bursts of random length and idle between them, so that
// together they take a share of it. Starts with the constructor, ends with the destructor.
#pragma once

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

namespace spillway::bench {

// Runs the calling thread on `cpu` from here on.
void PinTo(int cpu);
// CPU time of the calling thread so far, ns.
uint64_t ThreadCpuNs();

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

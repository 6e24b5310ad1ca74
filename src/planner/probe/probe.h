// SPDX-License-Identifier: Apache-2.0
// Measures this machine: what each core does of each kernel, with 1 to all cores busy. Runs threads, pins
// them, reads the monotonic clock. The question is Lovelock's (section 5.1): how much do cores slow each
// other down?
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "base/error.h"
#include "planner/probe/kernel.h"

namespace spillway::planner {

struct ProbeSetup {
  std::vector<int> cpus;  // to use, in order; see UsableCpus
  std::vector<int> busy;  // how many of them at a time, ascending, the first 1, the last all
  std::chrono::milliseconds duration{500};  // of each measurement
  int rounds = 3;
  double scale = 1;  // of the kernels' data
};

// One kernel with so many cores busy.
struct ProbePoint {
  std::string kernel;
  int busy = 1;
  double per_core = 0;       // mean over the busy cores, median of the rounds, in the kernel's unit
  double low = 0, high = 0;  // of the rounds
};

// CPUs that this process may run on.
[[nodiscard]] std::vector<int> UsableCpus();
// 1, 2, 4, ... and all; `few`: 1, half and all.
[[nodiscard]] std::vector<int> BusyCounts(int cpus, bool few);
// The greatest scale up to `wanted` at which all cores' data stay within a quarter of `memory_gib`.
[[nodiscard]] double ScaleThatFits(double wanted, int cpus, double memory_gib);

// Errors: kSystem (a kernel's answer was wrong, no socket), and kUnavailable if stop() said so.
[[nodiscard]] Result<std::vector<ProbePoint>> Probe(
    const ProbeSetup& setup, const std::function<void(double, const std::string&)>& progress,
    const std::function<bool()>& stop);

}  // namespace spillway::planner

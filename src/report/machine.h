// SPDX-License-Identifier: Apache-2.0
// The machine a result was taken on: enough to judge a figure by, nothing that names a host, a user or
// a path. Thread-safe.
#pragma once

#include <string>
#include <string_view>

namespace spillway::report {

struct Machine {
  std::string cpu;        // model name; "unknown" where the kernel does not say
  int cores = 0;          // that this process may run on
  std::string kernel;     // release, e.g. "6.1.0-18-amd64"
  double memory_gib = 0;  // of the whole machine, to one decimal
};

[[nodiscard]] Machine ReadMachine();

// The parsing behind it: texts of /proc/cpuinfo and /proc/meminfo.
[[nodiscard]] std::string CpuModel(std::string_view cpuinfo);
[[nodiscard]] double MemoryGib(std::string_view meminfo);

}  // namespace spillway::report

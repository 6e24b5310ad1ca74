// SPDX-License-Identifier: Apache-2.0
// CPUs on which several units work, none of which has one of its own: who is placed first works first, later
// ones take the gaps that are left. A scheduler would let them work in turns; how much is done by when is the
// same. Not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

namespace spillway::sim {

class SharedCpus {
 public:
  explicit SharedCpus(uint32_t cpus) : busy_(cpus) {}

  // A time at which a CPU is free, from `begin` to `end`.
  struct Gap {
    uint32_t cpu;
    int64_t begin, end;
  };
  // The first at or after `time`.
  [[nodiscard]] Gap FirstGap(int64_t time) const;
  void Take(uint32_t cpu, int64_t begin, int64_t end);
  // Nobody will ask for a time before this one.
  void Forget(int64_t time);

 private:
  std::vector<std::map<int64_t, int64_t>> busy_;  // of each CPU, begin to end, apart from each other
};

}  // namespace spillway::sim

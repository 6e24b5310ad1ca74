// SPDX-License-Identifier: Apache-2.0
// Jobs whose answers wait for their time to leave. Not thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "job.h"

namespace spillway::unit {

class Pending {
 public:
  void Add(Job job);
  // The earliest, if its time has come; of those due at the same time the one added first.
  [[nodiscard]] std::optional<Job> TakeDue(std::int64_t now_ns);
  [[nodiscard]] std::optional<std::int64_t> NextDueNs() const;

 private:
  struct Entry {
    std::uint64_t order;
    Job job;
  };
  static bool Later(const Entry& a, const Entry& b);

  std::uint64_t added_ = 0;
  std::vector<Entry> heap_;  // earliest first
};

}  // namespace spillway::unit

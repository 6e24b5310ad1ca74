// SPDX-License-Identifier: Apache-2.0
// What active health checks cost: CPU time of spillwayd's checker while it asks many units once per interval.
// The units are addresses of the loopback network, 127.0.0.0/8, answered by a process of its own.
//
// The sender of a packet over loopback also pays for its reception, so the checker pays here for half of what
// the servers' kernels do; over a real link it pays for its own half of the way back instead.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "report/document.h"
#include "report/table.h"

namespace spillway::bench {

struct HealthBenchOptions {
  std::vector<uint32_t> units = {1'024, 8'192};  // datagram checks hold a descriptor each
  uint32_t interval_ms = 1'000;
  int rounds = 3;
  std::chrono::seconds window{4};  // per row and round, after as long as it takes until every unit has passed
};

inline constexpr uint32_t kMaxHealthUnits = 32'768;

// A round takes every row in turn. Errors: kSystem; a check that fails ends the run, since its cost is
// another.
[[nodiscard]] Result<report::Document> RunHealthBench(
    const HealthBenchOptions& options, const std::function<void(double, const std::string&)>& progress);

[[nodiscard]] report::Table MakeHealthTable(const report::Document& document);

}  // namespace spillway::bench

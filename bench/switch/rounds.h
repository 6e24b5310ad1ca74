// SPDX-License-Identifier: Apache-2.0
// Runs the switch benchmark: rounds over all rows, floor and switch by turns, every answer checked.
// Not thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "bench/switch/bed.h"

namespace spillway::bench {

struct RoundOptions {
  BedOptions bed;
  std::vector<uint32_t> flow_counts = {1, 1000, 100'000, 1'000'000, 10'000'000};
  std::vector<std::string> classes = ClassNames();  // rows of others are left out
  int rounds = 5;
  int chunks = 10;                 // a row's measurements per round, each beside one of the floor
  uint32_t chunk_packets = 50000;  // a few milliseconds: short enough to find a quiet moment
};

struct RowResult {
  Row row;
  uint32_t evicted = 0;                    // of the row's entries, those that did not fit into the flow table
  std::vector<double> floor_ns, total_ns;  // every measurement; total: floor and switch
};

using OnProgress = std::function<void(double fraction, const std::string& message)>;

// Errors: as Bed::Open, and kSystem when the data plane answered wrongly: such a run has no figures.
[[nodiscard]] Result<std::vector<RowResult>> RunRounds(const RoundOptions& options,
                                                       const OnProgress& on_progress);

}  // namespace spillway::bench

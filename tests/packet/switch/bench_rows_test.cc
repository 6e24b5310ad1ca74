// SPDX-License-Identifier: Apache-2.0
// `spillway bench switch` on few packets: the switch must answer each row as the benchmark expects, round
// after round, or it has no figures.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "bench/switch/rounds.h"

namespace spillway::bench {
namespace {

TEST(SwitchBenchmark, EveryRowIsAnsweredAsItExpects) {
  const RoundOptions options{.bed = {.servers = 64, .flow_table_entries = 1 << 16},
                             .flow_counts = {1000},
                             .rounds = 2,
                             .chunks = 2,
                             .chunk_packets = 3000};
  const auto results = RunRounds(options, [](double, const std::string&) {});
  ASSERT_TRUE(results) << results.error().message;
  for (const std::string& name : ClassNames())
    EXPECT_TRUE(std::any_of(results->begin(), results->end(), [&](const RowResult& result) {
      return ToString(result.row.row_class) == name && result.total_ns.size() == 4;
    })) << name;
}

}  // namespace
}  // namespace spillway::bench

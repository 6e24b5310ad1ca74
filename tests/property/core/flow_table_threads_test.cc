// SPDX-License-Identifier: Apache-2.0
// Several threads insert into one table at once, as CPUs do: every flow is there afterwards, or its
// absence was counted. The reads of flow_table.h are plain, as they are on a CPU that shares a map, so
// under ThreadSanitizer a lock-free run would report those by design; there threads take turns.
#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include "core/flow_table.h"

#if defined(__SANITIZE_THREAD__)
constexpr bool kTakeTurns = true;
#else
constexpr bool kTakeTurns = false;
#endif

namespace spillway {
namespace {

const spw_flow_limits kThreadLimits = spw_make_flow_limits(300, 120, 40);

struct Outcome {
  std::vector<uint64_t> placed;
  uint32_t refused = 0;
};

TEST(FlowTableThreads, NoEntryIsLost) {
  constexpr int kThreads = 4, kRounds = 40;
  constexpr uint32_t kBuckets = 64, kPerThread = kBuckets * SPW_BUCKET_ENTRIES / kThreads;  // exactly full
  std::mt19937_64 random(52);
  uint32_t refused = 0;
  for (int round = 0; round < kRounds; round++) {
    std::vector<spw_bucket> table(kBuckets);
    std::vector<Outcome> outcomes(kThreads);
    std::vector<std::vector<uint64_t>> hashes(kThreads);
    for (auto& mine : hashes) {
      for (uint32_t i = 0; i < kPerThread; i++) mine.push_back(random());
    }
    std::barrier start(kThreads);
    std::mutex turn;
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; t++) {
      threads.emplace_back([&, t] {
        start.arrive_and_wait();
        for (uint64_t hash : hashes[static_cast<size_t>(t)]) {
          uint32_t tag = spw_flow_tag(hash), primary = spw_flow_primary(hash, kBuckets - 1);
          spw_bucket* secondary = &table[spw_flow_other(primary, tag, kBuckets - 1)];
          std::unique_lock<std::mutex> lock(turn, std::defer_lock);
          if (kTakeTurns) lock.lock();
          auto result = spw_flow_insert(&table[primary], secondary,
                                        spw_flow_entry(tag, static_cast<uint16_t>(t), SPW_FLOW_OPEN, 7), 7,
                                        kThreadLimits, SPW_BUCKET_ENTRIES);
          Outcome& mine = outcomes[static_cast<size_t>(t)];
          if (spw_is_inserted(result))
            mine.placed.push_back(hash);
          else
            mine.refused++;
        }
      });
    }
    for (auto& thread : threads) thread.join();
    uint32_t missing = 0;
    for (int t = 0; t < kThreads; t++) {
      const Outcome& mine = outcomes[static_cast<size_t>(t)];
      refused += mine.refused;
      ASSERT_EQ(mine.placed.size() + mine.refused, kPerThread);
      for (uint64_t hash : mine.placed) {
        uint32_t tag = spw_flow_tag(hash), primary = spw_flow_primary(hash, kBuckets - 1);
        uint32_t other = spw_flow_other(primary, tag, kBuckets - 1);
        int at = spw_flow_find(&table[primary], tag);
        const spw_bucket* in = &table[primary];
        if (at < 0 && (table[primary].entry[0] & SPW_FLOW_OVERFLOW)) {
          at = spw_flow_find(&table[other], tag);
          in = &table[other];
        }
        if (at < 0) {
          missing++;
          continue;
        }
        ASSERT_EQ(spw_entry_unit(in->entry[at]), t);
      }
    }
    ASSERT_EQ(missing, 0u) << "round " << round;
  }
  RecordProperty("refused", static_cast<int>(refused));
}

}  // namespace
}  // namespace spillway

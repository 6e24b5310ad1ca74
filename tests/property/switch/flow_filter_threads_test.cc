// SPDX-License-Identifier: Apache-2.0
// Threads insert flows as the data plane does while the sweep renews the filter: a flow with an entry is
// never missing from the filter. As in flow_table_threads_test.cc, under ThreadSanitizer they take turns.
#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include "switch/flow_sweeper.h"

#if defined(__SANITIZE_THREAD__)
constexpr bool kTakeTurns = true;
#else
constexpr bool kTakeTurns = false;
#endif

namespace spillway::switching {
namespace {

const spw_flow_limits kLimits = spw_make_flow_limits(300, 120, 40);
constexpr uint32_t kBuckets = 1024, kWords = 64, kTick = 7;
constexpr int kThreads = 3, kFlowsEach = 1000;  // under half of the table: none is evicted

TEST(FlowFilterThreads, AFlowWithAnEntryIsNeverMissing) {
  std::vector<spw_bucket> table(kBuckets);
  std::vector<spw_filter_word> filter(kWords);
  std::atomic<int> inserting{kThreads};
  std::atomic<uint64_t> missing{0}, looked{0}, sweeps{0};
  std::mutex turn;
  auto in_turn = [&](auto&& work) {
    std::unique_lock<std::mutex> lock(turn, std::defer_lock);
    if (kTakeTurns) lock.lock();
    work();
  };
  auto word_of = [&](uint32_t tag) { return &filter[spw_filter_index(tag, kWords - 1)]; };
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; t++) {
    threads.emplace_back([&, t] {
      std::mt19937_64 random(70 + static_cast<unsigned>(t));
      std::vector<uint32_t> mine;
      for (int i = 0; i < kFlowsEach; i++) {
        const uint64_t hash = random();
        const uint32_t tag = spw_flow_tag(hash), primary = spw_flow_primary(hash, kBuckets - 1);
        in_turn([&] {
          spw_filter_add(word_of(tag), tag);
          // A CPU may be held up here, for as long as whole rounds of the sweep.
          for (uint64_t held = sweeps; !kTakeTurns && i % 8 == 0 && sweeps < held + 40;)
            std::this_thread::yield();
          auto result = spw_flow_insert(&table[primary], &table[spw_flow_other(primary, tag, kBuckets - 1)],
                                        spw_flow_entry(tag, 1, SPW_FLOW_OPEN, kTick), kTick, kLimits,
                                        SPW_BUCKET_ENTRIES);
          if (!spw_is_inserted(result)) return;
          spw_filter_add(word_of(tag), tag);
          mine.push_back(tag);
        });
        // The newest and an old one.
        for (size_t at :
             {mine.size() - 1, static_cast<size_t>(random()) % std::max<size_t>(1, mine.size())}) {
          if (at >= mine.size()) continue;
          in_turn([&] { missing += !spw_filter_may_hold(word_of(mine[at]), mine[at]); });
          looked++;
        }
      }
      inserting--;
    });
  }
  FlowSweeper sweeper(0);  // renews in each round
  while (inserting > 0 || sweeper.rounds() < 4) {
    in_turn([&] {
      sweeper.Sweep({table.data(), kBuckets, filter.data(), kWords}, 64, kTick, kLimits,
                    [](uint16_t) { return true; });
    });
    sweeps++;
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(missing, 0u) << "of " << looked << " in " << sweeper.rounds() << " rounds";
  EXPECT_GE(sweeper.rounds(), 4u);
}

}  // namespace
}  // namespace spillway::switching

// SPDX-License-Identifier: Apache-2.0
// The learner on counters that no unit would have.
#include <gtest/gtest.h>

#include <random>

#include "agent/learner/outcome_learner.h"
#include "bpf/meter_account.h"

namespace spillway::agent {
namespace {

using namespace std::chrono_literals;

// Whatever the counters say, also if they contradict each other or go back one by one.
TEST(OutcomeLearner, GarbageGivesNumbersWithinRange) {
  for (uint64_t seed = 1; seed <= 40; seed++) {
    std::mt19937_64 random(seed);
    const auto jump = [&](int bits) { return random() >> (64 - 1 - random() % static_cast<uint64_t>(bits)); };
    OutcomeLearner learner(static_cast<uint32_t>(random() % 3 ? 0 : jump(16)));
    spw_meter_counts counts{};
    spw_meter_clocks clocks{};
    std::chrono::nanoseconds now = 1s;
    auto* words = reinterpret_cast<uint64_t*>(&counts);
    for (int i = 0; i < 400; i++) {
      counts.completed += jump(12);
      counts.timed += jump(10);
      counts.latency_sum_ns += jump(40);
      for (int k = 0; k < 30; k++) words[random() % (sizeof(counts) / sizeof(uint64_t))] += jump(30);
      if (seed % 2 == 0) words[random() % (sizeof(counts) / sizeof(uint64_t))] = random();
      now += std::chrono::nanoseconds(static_cast<int64_t>(jump(34)));
      learner.Look(now, static_cast<uint32_t>(jump(32)), counts, 1 + static_cast<double>(random() % 8),
                   clocks);
      const Learnt learnt = learner.learnt();
      if (learnt == Learnt{}) continue;
      ASSERT_GT(learnt.base_us, 0u) << seed;
      ASSERT_GT(learnt.slot_ns, 0u) << seed;
      ASSERT_LE(learnt.slot_ns, 4'000'000'000u) << seed;
      ASSERT_GT(learnt.knee_us, 0u) << seed;
      ASSERT_GE(learnt.knee_us, learnt.slot_ns / 1000) << seed << ": who finds nobody waits for nobody";
      for (int c = 0; c < SPW_METER_CLOCKS; c++) {
        ASSERT_GT(clocks.slot_ns[c], 0u) << seed;
        ASSERT_LE(clocks.slot_ns[c], 4'000'000'000u) << seed;
      }
    }
    EXPECT_NE(learner.learnt(), Learnt{});
  }
}

TEST(OutcomeLearner, LatenciesOfZeroAndTheLongestOnesAreLearnt) {
  for (const uint32_t steps : {0u, 0x7fffffffu}) {
    OutcomeLearner learner;
    spw_meter_counts counts{};
    spw_meter_clocks clocks{};
    for (uint64_t i = 1; i <= 2000; i++) {
      const uint32_t marks = spw_meter_mark_request(&clocks, &counts, i * 1'000'000);
      counts.completed++, counts.timed++;
      counts.latency_sum_ns += uint64_t{steps} << SPW_METER_STEP_SHIFT;
      counts.histogram[spw_meter_histogram_index(steps)]++;
      spw_meter_add_outcome(&counts, marks, 0u - steps, 0);
      learner.Look(i * 1ms, i % 3 ? 0xffffffffu : 0, counts, 1, clocks);
      const Learnt learnt = learner.learnt();
      if (learnt == Learnt{}) continue;
      ASSERT_GT(learnt.base_us, 0u);
      ASSERT_GT(learnt.slot_ns, 0u);
      ASSERT_GT(learnt.knee_us, 0u);
    }
    EXPECT_NE(learner.learnt(), Learnt{});
  }
}

}  // namespace
}  // namespace spillway::agent

// SPDX-License-Identifier: Apache-2.0
// The backlog clocks: what a request is marked with, and where its outcome is counted.
#include "bpf/meter_backlog.h"

#include <gtest/gtest.h>

#include "bpf/meter_account.h"

namespace spillway::agent {
namespace {

constexpr uint64_t kNow = 1'000'000'000'000;
constexpr uint32_t kSlot = 1'000'000;

// The slots of backlog that clock c was marked with, rounded down to the mark's precision.
double Slots(uint32_t marks, int c) {
  return static_cast<double>(spw_meter_histogram_floor(marks >> (8 * c) & 0xff)) / SPW_METER_SLOT_FRACTION;
}

spw_meter_clocks Clocks() {
  spw_meter_clocks clocks{};
  clocks.slot_ns[0] = kSlot, clocks.slot_ns[1] = 2 * kSlot, clocks.slot_ns[2] = 4 * kSlot;
  return clocks;
}

TEST(BacklogClocks, EachRequestAddsASlotAndTimeDrains) {
  spw_meter_clocks clocks = Clocks();
  spw_meter_counts counts{};
  EXPECT_EQ(spw_meter_mark_request(&clocks, &counts, kNow), 0u) << "the unit is empty";
  for (int c = 0; c < SPW_METER_CLOCKS; c++) EXPECT_EQ(clocks.drained_ns[c], kNow + clocks.slot_ns[c]);
  (void)spw_meter_mark_request(&clocks, &counts, kNow);
  const uint32_t marks = spw_meter_mark_request(&clocks, &counts, kNow + kSlot);
  EXPECT_EQ(Slots(marks, 0), 1) << "one of two slots is worked off";
  EXPECT_EQ(Slots(marks, 1), 1.5);
  EXPECT_EQ(Slots(marks, 2), 1.75);
  EXPECT_EQ(spw_meter_mark_request(&clocks, &counts, kNow + 1000 * uint64_t{kSlot}), 0u);
  EXPECT_EQ(clocks.drained_ns[0], kNow + 1001 * uint64_t{kSlot}) << "idle time is not saved up";
}

TEST(BacklogClocks, UntimedRequestsCountWithTheNextTimedOne) {
  spw_meter_clocks clocks = Clocks();
  spw_meter_counts counts{};
  (void)spw_meter_mark_request(&clocks, &counts, kNow);
  counts.untimed = 5;
  EXPECT_EQ(Slots(spw_meter_mark_request(&clocks, &counts, kNow), 0), 6);
  EXPECT_EQ(counts.untimed, 0u);
  EXPECT_EQ(clocks.drained_ns[0], kNow + 7 * uint64_t{kSlot});
}

TEST(BacklogClocks, WithoutASlotYetNothingIsAhead) {
  spw_meter_clocks clocks{};
  spw_meter_counts counts{};
  for (int i = 0; i < 10; i++) EXPECT_EQ(spw_meter_mark_request(&clocks, &counts, kNow + i), 0u);
}

TEST(BacklogClocks, MarksAreRightWithinAnEighthUpToTheLongestBacklog) {
  double last = -1;
  for (double slots = 0; slots < 4e6; slots = slots < 2 ? slots + 1.0 / 16 : slots * 1.03) {
    const uint32_t mark = spw_meter_mark(static_cast<uint64_t>(slots * kSlot), kSlot);
    ASSERT_LE(mark, 0xffu);
    const double seen = Slots(mark, 0);
    ASSERT_LE(seen, slots + 1e-9);
    ASSERT_GE(seen, slots * 0.87 - 0.07);
    ASSERT_GE(seen, last);
    last = seen;
  }
  EXPECT_EQ(spw_meter_mark(uint64_t{1} << 59, 1), spw_meter_mark(uint64_t{1} << 40, 1)) << "saturates";
}

TEST(BacklogClocks, BinsDoubleFromHalfASlotOn) {
  const auto bin = [](double slots) {
    return spw_meter_bin(spw_meter_mark(static_cast<uint64_t>(slots * kSlot), kSlot));
  };
  EXPECT_EQ(bin(0), 0u);
  EXPECT_EQ(bin(0.49), 0u);
  EXPECT_EQ(bin(0.5), 1u);
  EXPECT_EQ(bin(0.99), 1u);
  for (uint32_t i = 0; i < 12; i++) {
    EXPECT_EQ(bin(1 << i), i + 2) << i;
    EXPECT_EQ(bin((1 << i) * 1.99), i + 2) << i;
  }
  EXPECT_EQ(bin(1e9), SPW_METER_BINS - 1u);
}

TEST(Outcomes, AreCountedInTheBinOfEachClock) {
  spw_meter_clocks clocks = Clocks();
  spw_meter_counts counts{};
  clocks.drained_ns[0] = kNow + 3 * kSlot;
  clocks.drained_ns[2] = kNow + 2 * kSlot;  // half of its slot
  const uint32_t marks = spw_meter_mark_request(&clocks, &counts, kNow);
  counts.completed++;
  spw_meter_add_outcome(&counts, marks, 1000, 1700);
  EXPECT_EQ(counts.outcome[0][3].answers, 1u);
  EXPECT_EQ(counts.outcome[0][3].backlog, 3u * SPW_METER_SLOT_FRACTION);
  EXPECT_EQ(counts.outcome[0][3].latency_steps, 700u);
  EXPECT_EQ(counts.outcome[0][3].latency_steps2, 490'000u);
  EXPECT_EQ(counts.outcome[1][0].answers, 1u);
  EXPECT_EQ(counts.outcome[1][0].backlog, 0u);
  EXPECT_EQ(counts.outcome[2][1].answers, 1u);
  uint64_t all = 0;
  for (const auto& clock : counts.outcome)
    for (const auto& bin : clock) all += bin.answers;
  EXPECT_EQ(all, uint64_t{SPW_METER_CLOCKS});
}

// Answers that a request waited behind tell how fast the unit works; the others, how seldom requests come.
TEST(Pace, CountsOnlyFromAnswerToAnswerOfARequestThatWasThere) {
  spw_meter_counts counts{};
  const auto answer = [&](uint32_t came, uint32_t now) {
    counts.completed++;
    spw_meter_add_outcome(&counts, 0, came, now);
  };
  answer(100, 200);
  EXPECT_EQ(counts.pace[0].answers, 0u) << "the first";
  answer(250, 350);
  EXPECT_EQ(counts.pace[0].answers, 0u) << "came to an empty unit";
  answer(300, 430);
  EXPECT_EQ(counts.pace[0].answers, 1u);
  EXPECT_EQ(counts.pace[0].busy_steps, 80u);
  counts.completed += 3;  // untimed ones
  answer(420, 700);
  EXPECT_EQ(counts.pace[0].answers, 5u) << "untimed answers in between count, too";
  EXPECT_EQ(counts.pace[0].busy_steps, 350u);
  answer(700, 800);
  EXPECT_EQ(counts.pace[0].answers, 5u) << "came as the last one left: nobody knows";
}

TEST(Pace, OutlivesTheStepClocksWrap) {
  spw_meter_counts counts{};
  counts.completed = 1;
  spw_meter_add_outcome(&counts, 0, 0xfffffe00, 0xffffff00);
  counts.completed = 2;
  spw_meter_add_outcome(&counts, 0, 0xfffffe80, 0x100);
  EXPECT_EQ(counts.pace[0].answers, 1u);
  EXPECT_EQ(counts.pace[0].busy_steps, 0x200u);
  EXPECT_EQ(counts.outcome[0][0].latency_steps, 0x100u + 0x280u);
}

TEST(Requests, AreMarkedIfTimedAndTheMarksComeBackWithTheAnswer) {
  spw_meter_config config{};
  config.timeout_steps = 1000;
  config.threshold_steps = 0x7fffffff;
  spw_meter_shared shared{};
  spw_meter_clocks clocks = Clocks();
  spw_meter_counts counts{};
  spw_meter_bucket bucket{};
  const auto request = [&](uint64_t key, int timed) {
    spw_meter_packet packet{};
    packet.hash = key << 40;
    EXPECT_EQ(spw_meter_request(&config, &shared, &clocks, &counts, &bucket, &packet, kNow, timed),
              SPW_METER_NOTHING);
  };
  request(1, 1);
  request(2, 0);
  request(3, 1);
  request(3, 1);  // a repetition brings no work
  EXPECT_EQ(clocks.drained_ns[0], kNow + 3 * kSlot);
  EXPECT_EQ(counts.untimed, 0u);
  uint32_t marks = 0;
  EXPECT_NE(spw_meter_take(&config, &shared, &counts, &bucket, uint64_t{3} << 40, &marks), 0u);
  EXPECT_EQ(Slots(marks, 0), 2);
  EXPECT_NE(spw_meter_take(&config, &shared, &counts, &bucket, uint64_t{1} << 40, &marks), 0u);
  EXPECT_EQ(Slots(marks, 0), 0);
  EXPECT_EQ(spw_meter_take(&config, &shared, &counts, &bucket, uint64_t{9} << 40, &marks), 0u);
}

}  // namespace
}  // namespace spillway::agent

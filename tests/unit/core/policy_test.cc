// SPDX-License-Identifier: Apache-2.0
// Each policy on states small enough to answer by hand. Random states: tests/property/core.
#include "core/policy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <vector>

namespace spillway {
namespace {

constexpr uint32_t kBeat = 100'000;
constexpr uint64_t kNow = uint64_t{kBeat} << SPW_BEAT_SHIFT;
constexpr uint32_t kSilentBeats = 3000;

// A server in small verbs; units are `up`, fresh and idle until said otherwise.
class TestServer {
 public:
  TestServer& Unit(spw_unit_kind kind, uint16_t weight, spw_unit_status status = SPW_UNIT_UP) {
    server_.unit[count_] = {static_cast<uint8_t>(status), static_cast<uint8_t>(kind), weight};
    server_.load[count_].report_beat = kBeat;
    server_.load[count_].base_us = server_.load[count_].knee_us = 1000;
    server_.load[count_].slot_ns = 1'000'000;
    server_.silent_beats = kSilentBeats;
    count_++;
    return *this;
  }
  TestServer& Busy() {
    return Last([](auto& load) { load.flags = SPW_REPORT_BUSY; });
  }
  TestServer& Silent() {
    return Last([](auto& load) { load.report_beat = kBeat - kSilentBeats - 1; });
  }
  TestServer& NeverReported() {
    return Last([](auto& load) { load.report_beat = 0; });
  }
  TestServer& Backlog(uint16_t queue, uint32_t assigned) {
    return Last([&](auto& load) {
      load.queue = queue, load.assigned = assigned;
      load.drained_ns = kNow + (uint64_t{queue} + assigned) * load.slot_ns;
    });
  }
  TestServer& Reported(uint32_t beats_ago, uint32_t latency_us) {
    return Last([&](auto& load) { load.report_beat = kBeat - beats_ago, load.latency_us = latency_us; });
  }
  int Choose(spw_unit_policy policy, uint32_t default_unit = 0, uint64_t hash = 0, uint32_t draw = 0) const {
    return spw_choose_unit(&server_, policy, default_unit, hash, kNow, draw);
  }
  const spw_server* get() const { return &server_; }

 private:
  template <class F>
  TestServer& Last(F change) {
    change(server_.load[count_ - 1]);
    return *this;
  }
  spw_server server_{};
  int count_ = 0;
};

TEST(P4mite, TakesTheFirstThatIsNotBusy) {
  EXPECT_EQ(TestServer().Unit(SPW_KIND_CPU, 6).Unit(SPW_KIND_SMARTNIC, 1).Choose(SPW_UNIT_P4MITE), 0);
  EXPECT_EQ(TestServer().Unit(SPW_KIND_CPU, 6).Busy().Unit(SPW_KIND_SMARTNIC, 1).Choose(SPW_UNIT_P4MITE), 1);
  EXPECT_EQ(TestServer().Unit(SPW_KIND_CPU, 6).Unit(SPW_KIND_SMARTNIC, 1).Busy().Choose(SPW_UNIT_P4MITE), 0);
}

TEST(P4mite, AllBusyMeansTheFirst) {
  EXPECT_EQ(
      TestServer().Unit(SPW_KIND_CPU, 6).Busy().Unit(SPW_KIND_SMARTNIC, 1).Busy().Choose(SPW_UNIT_P4MITE), 0);
}

TEST(P4mite, OnlyUnitsThatAreUpCount) {
  for (auto status : {SPW_UNIT_ABSENT, SPW_UNIT_DRAINING, SPW_UNIT_DOWN}) {
    TestServer s;
    s.Unit(SPW_KIND_CPU, 6, status).Unit(SPW_KIND_SMARTNIC, 1).Busy();
    for (int policy = 0; policy < SPW_UNIT_POLICIES; policy++) {
      int expected = policy == SPW_UNIT_HOST_ONLY ? -1 : 1;
      EXPECT_EQ(s.Choose(static_cast<spw_unit_policy>(policy)), expected) << status << " " << policy;
    }
  }
}

TEST(UnitPolicy, NoUnitUpIsAnAnswer) {
  TestServer none, down;
  down.Unit(SPW_KIND_CPU, 6, SPW_UNIT_DOWN);
  for (int policy = 0; policy < SPW_UNIT_POLICIES; policy++) {
    EXPECT_EQ(none.Choose(static_cast<spw_unit_policy>(policy)), -1);
    EXPECT_EQ(down.Choose(static_cast<spw_unit_policy>(policy)), -1);
  }
}

TEST(HostOnly, NeverLeavesTheHost) {
  TestServer s;
  s.Unit(SPW_KIND_SMARTNIC, 9).Unit(SPW_KIND_CPU, 1).Busy().Unit(SPW_KIND_CPU, 1);
  EXPECT_EQ(s.Choose(SPW_UNIT_HOST_ONLY, 1), 1) << "the ring's word, busy or not";
  EXPECT_EQ(s.Choose(SPW_UNIT_HOST_ONLY, 2), 2);
  EXPECT_EQ(s.Choose(SPW_UNIT_HOST_ONLY, 7), 1) << "the ring's unit is gone: the first host";
}

TEST(Ecmp, FollowsTheRingAndSpreadsEquallyWhenItsUnitIsGone) {
  TestServer s;
  s.Unit(SPW_KIND_CPU, 1000)
      .Unit(SPW_KIND_SMARTNIC, 1)
      .Unit(SPW_KIND_GPU, 1)
      .Unit(SPW_KIND_CPU, 1, SPW_UNIT_DOWN);
  EXPECT_EQ(s.Choose(SPW_UNIT_ECMP, 2), 2);
  std::map<int, int> counts;
  for (uint64_t i = 0; i < 3000; i++) counts[s.Choose(SPW_UNIT_ECMP, 3, (i * 0x55555555ULL / 1000) << 16)]++;
  for (int u = 0; u < 3; u++) EXPECT_NEAR(counts[u], 1000, 2) << u;
}

// 40 sent over 16 ms to a unit that answers in 1 ms: about 2.5 are there, not 40.
TEST(LeastLoaded, CountsOfThoseSentOnlyWhatCanStillBeThere) {
  auto choice = [](uint32_t beats_ago, uint32_t latency_us) {
    return TestServer()
        .Unit(SPW_KIND_CPU, 6)
        .Backlog(0, 40)
        .Reported(beats_ago, latency_us)
        .Unit(SPW_KIND_SMARTNIC, 1)
        .Choose(SPW_UNIT_LEAST_LOADED);
  };
  EXPECT_EQ(choice(16, 1024), 0) << "(2.5 + 1) / 6 < 1";
  EXPECT_EQ(choice(16, 4096), 1) << "(10 + 1) / 6 > 1";
  EXPECT_EQ(choice(4, 1024), 1) << "the same 40 within 4 ms: 10 are there";
  EXPECT_EQ(choice(16, 0), 1) << "latency unknown: all are there";
  EXPECT_EQ(choice(0, 1), 1) << "the report is new: all are there";
  EXPECT_EQ(choice(static_cast<uint32_t>(-1), 1), 1) << "stamped by a clock ahead of ours: new";
}

TEST(LeastLoaded, ComparesRequestsPerCapacity) {
  EXPECT_EQ(TestServer()
                .Unit(SPW_KIND_CPU, 6)
                .Backlog(10, 0)
                .Unit(SPW_KIND_SMARTNIC, 1)
                .Choose(SPW_UNIT_LEAST_LOADED),
            1)
      << "11/6 > 1/1";
  EXPECT_EQ(TestServer()
                .Unit(SPW_KIND_CPU, 6)
                .Backlog(4, 0)
                .Unit(SPW_KIND_SMARTNIC, 1)
                .Choose(SPW_UNIT_LEAST_LOADED),
            0)
      << "5/6 < 1/1";
  EXPECT_EQ(TestServer()
                .Unit(SPW_KIND_CPU, 6)
                .Backlog(5, 0)
                .Unit(SPW_KIND_SMARTNIC, 1)
                .Choose(SPW_UNIT_LEAST_LOADED),
            0)
      << "6/6 = 1/1: the priority decides";
  EXPECT_EQ(TestServer()
                .Unit(SPW_KIND_CPU, 6)
                .Backlog(2, 4)
                .Unit(SPW_KIND_SMARTNIC, 1)
                .Choose(SPW_UNIT_LEAST_LOADED),
            1)
      << "what was sent since the report counts";
  EXPECT_EQ(TestServer()
                .Unit(SPW_KIND_CPU, 10000)
                .Backlog(65535, 0xffffffffu)
                .Unit(SPW_KIND_SMARTNIC, 1)
                .Backlog(65535, 0xffffffffu)
                .Choose(SPW_UNIT_LEAST_LOADED),
            0)
      << "no overflow at the largest backlog";
}

// The golden-ratio sequence over a line: in any window of n draws a unit of share s gets s n within
// the sequence's discrepancy, which for n <= 2000 is below 4 draws for one interval.
TEST(Wrr, SharesHoldOverEveryWindow) {
  TestServer s;
  s.Unit(SPW_KIND_CPU, 6000).Unit(SPW_KIND_SMARTNIC, 1000).Unit(SPW_KIND_GPU, 3000);
  const double shares[3] = {0.6, 0.1, 0.3};
  for (uint32_t start : {0u, 77u, 0xfffffc00u}) {
    for (uint32_t window : {1u, 10u, 100u, 2000u}) {
      int counts[3] = {0, 0, 0};
      for (uint32_t d = 0; d < window; d++) counts[s.Choose(SPW_UNIT_WRR, 0, 0, start + d)]++;
      for (int u = 0; u < 3; u++) EXPECT_NEAR(counts[u], shares[u] * window, 4.0) << start << "+" << window;
    }
  }
}

TEST(Wrr, TurnsInterleave) {
  TestServer s;
  s.Unit(SPW_KIND_CPU, 1).Unit(SPW_KIND_SMARTNIC, 1);
  int longest = 0, run = 0, last = -1;
  for (uint32_t d = 0; d < 10'000; d++) {
    int unit = s.Choose(SPW_UNIT_WRR, 0, 0, d);
    run = unit == last ? run + 1 : 1;
    last = unit;
    longest = std::max(longest, run);
  }
  EXPECT_LE(longest, 2) << "never more than twice in a row at equal weights";
}

// A silent unit gets its share by capacity, no more and no less, whatever the rest report.
TEST(Silence, ASilentUnitGetsExactlyItsCapacityShare) {
  for (auto policy : {SPW_UNIT_P4MITE, SPW_UNIT_LEAST_LOADED, SPW_UNIT_HEADROOM, SPW_UNIT_JSQ}) {
    for (bool never : {false, true}) {
      TestServer s;
      s.Unit(SPW_KIND_CPU, 6000).Unit(SPW_KIND_SMARTNIC, 1000);
      never ? s.NeverReported() : s.Silent();
      s.Unit(SPW_KIND_GPU, 3000).Backlog(1000, 0).Busy();
      int counts[3] = {0, 0, 0};
      for (uint32_t d = 0; d < 10'000; d++) counts[s.Choose(policy, 0, 0, d)]++;
      EXPECT_NEAR(counts[1], 1000, 5);
      EXPECT_EQ(counts[2], 0) << "reported as loaded, so the policy leaves it out";
      EXPECT_EQ(counts[0] + counts[1], 10'000);
    }
  }
}

TEST(Silence, AllSilentIsWeightedRoundRobin) {
  TestServer s;
  s.Unit(SPW_KIND_CPU, 6000).Silent().Unit(SPW_KIND_SMARTNIC, 4000).Silent().Busy();
  int counts[2] = {0, 0};
  for (uint32_t d = 0; d < 10'000; d++) counts[s.Choose(SPW_UNIT_P4MITE, 0, 0, d)]++;
  EXPECT_NEAR(counts[0], 6000, 5);
}

TEST(Silence, BeginsAfterSilentBeatsAndSurvivesTheClockWrap) {
  spw_server server{};
  server.silent_beats = kSilentBeats;
  for (uint32_t reported : {1u, 500u, 0xfffffff0u}) {
    server.load[0].report_beat = reported;
    EXPECT_FALSE(spw_unit_is_silent(&server, 0, reported));
    EXPECT_FALSE(spw_unit_is_silent(&server, 0, reported + kSilentBeats));
    EXPECT_TRUE(spw_unit_is_silent(&server, 0, reported + kSilentBeats + 1));
  }
  server.load[0].report_beat = 0;
  EXPECT_TRUE(spw_unit_is_silent(&server, 0, 5));
  server.load[0].report_beat = 7;
  EXPECT_FALSE(spw_unit_is_silent(&server, 0, 5)) << "stamped by a clock ahead of ours";
}

TEST(P2c, TakesTheLessLoadedServerPerCapacity) {
  TestServer light, heavy;
  light.Unit(SPW_KIND_CPU, 10).Backlog(3, 0);
  heavy.Unit(SPW_KIND_CPU, 10).Backlog(3, 1);
  EXPECT_TRUE(spw_prefer_second(heavy.get(), light.get(), SPW_UNIT_LEAST_LOADED, kNow));
  EXPECT_FALSE(spw_prefer_second(light.get(), heavy.get(), SPW_UNIT_LEAST_LOADED, kNow));
  EXPECT_FALSE(spw_prefer_second(light.get(), light.get(), SPW_UNIT_LEAST_LOADED, kNow)) << "a tie stays";
  TestServer big;
  big.Unit(SPW_KIND_CPU, 10).Backlog(3, 0).Unit(SPW_KIND_SMARTNIC, 10);
  EXPECT_TRUE(spw_prefer_second(light.get(), big.get(), SPW_UNIT_LEAST_LOADED, kNow))
      << "the same backlog over twice the capacity";
}

TEST(P2c, DoesNotCompareWithTheUnknown) {
  TestServer loaded, silent;
  loaded.Unit(SPW_KIND_CPU, 10).Backlog(100, 0);
  silent.Unit(SPW_KIND_CPU, 10).Silent();
  EXPECT_FALSE(spw_prefer_second(loaded.get(), silent.get(), SPW_UNIT_LEAST_LOADED, kNow));
  EXPECT_FALSE(spw_prefer_second(silent.get(), loaded.get(), SPW_UNIT_LEAST_LOADED, kNow));
}

TEST(P2c, ADeadServerLoses) {
  TestServer dead, alive;
  dead.Unit(SPW_KIND_CPU, 10, SPW_UNIT_DOWN);
  alive.Unit(SPW_KIND_CPU, 1).Backlog(500, 500);
  EXPECT_TRUE(spw_prefer_second(dead.get(), alive.get(), SPW_UNIT_LEAST_LOADED, kNow));
  EXPECT_FALSE(spw_prefer_second(alive.get(), dead.get(), SPW_UNIT_LEAST_LOADED, kNow));
  EXPECT_FALSE(spw_prefer_second(dead.get(), dead.get(), SPW_UNIT_LEAST_LOADED, kNow));
}

}  // namespace
}  // namespace spillway

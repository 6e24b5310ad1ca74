// SPDX-License-Identifier: Apache-2.0
#include "switch/health_keeper.h"

#include <gtest/gtest.h>

namespace spillway::switching {
namespace {

constexpr uint32_t kBeat = 100'000;
constexpr uint64_t kNow = uint64_t{kBeat} << SPW_BEAT_SHIFT;
constexpr uint32_t kLater = kBeat + 500;

// Pool "a" with servers 0 and 1, pool "b" with server 2; two units each, heard just now.
class HealthKeeperTest : public testing::Test {
 protected:
  HealthKeeperTest() {
    for (uint32_t code = 0; code < 3; code++) {
      const std::string pool = code < 2 ? "a" : "b";
      plan_.servers.push_back({code, {}, 3, code < 2 ? 0u : 1u});
      servers_[code].silent_beats = 1000;
      for (uint32_t u = 0; u < 2; u++) {
        PlannedUnit unit;
        unit.pool = pool, unit.server = "s" + std::to_string(code), unit.unit = u == 0 ? "cpu" : "nic";
        unit.id = spw_unit_id(code, u);
        plan_.units.push_back(unit);
        servers_[code].unit[u].status = SPW_UNIT_UP;
        servers_[code].load[u].report_beat = kBeat;
      }
    }
    keeper_.Look(plan_, servers_, pools_, kBeat);
  }
  void Says(uint32_t code, uint32_t unit, uint8_t flags) {
    servers_[code].load[unit].flags = flags;
    spw_health_report(&servers_[code], &pools_[plan_.servers[code].pool], unit, flags, kNow);
  }
  std::vector<HealthNews> News(uint32_t beat = kBeat) { return keeper_.TakeNews(plan_, servers_, beat); }

  Plan plan_;
  spw_server servers_[3]{};
  spw_pool pools_[2]{};
  HealthKeeper keeper_;
};

TEST_F(HealthKeeperTest, CountsThePoolsUnitsThatAreUp) {
  EXPECT_EQ(pools_[0].units, 4u);
  EXPECT_EQ(pools_[1].units, 2u);
  servers_[1].unit[0].status = SPW_UNIT_DRAINING;
  keeper_.Look(plan_, servers_, pools_, kBeat);
  EXPECT_EQ(pools_[0].units, 3u);
}

TEST_F(HealthKeeperTest, WhoFellSilentOrLeftMakesRoomForAnother) {
  Says(0, 0, SPW_REPORT_FAILING);
  Says(0, 1, SPW_REPORT_FAILING);
  Says(1, 0, SPW_REPORT_FAILING);
  EXPECT_EQ(pools_[0].out, 2u);
  EXPECT_EQ(servers_[1].failing, 0u) << "half of the pool is out";

  servers_[0].load[0].report_beat = kBeat - 2000;
  keeper_.Look(plan_, servers_, pools_, kBeat);
  EXPECT_EQ(servers_[0].failing, 2u);
  EXPECT_EQ(pools_[0].out, 1u);
  servers_[0].unit[1].status = SPW_UNIT_DOWN;
  keeper_.Look(plan_, servers_, pools_, kBeat);
  EXPECT_EQ(pools_[0].out, 0u);
  Says(1, 0, SPW_REPORT_FAILING);
  EXPECT_EQ(servers_[1].failing, 1u);
}

TEST_F(HealthKeeperTest, ErrorsThatAllUnitsAnswerTakeNoneOut) {
  constexpr uint8_t kErrors = SPW_REPORT_FAILING | SPW_REPORT_ERRORS;
  for (uint32_t code : {0, 1})
    for (uint32_t u : {0, 1}) Says(code, u, kErrors);
  EXPECT_EQ(pools_[0].out, 2u) << "until spillwayd looks";
  const auto all_say = [&] {
    for (uint32_t code : {0, 1})
      for (uint32_t u : {0, 1}) Says(code, u, kErrors);
  };
  keeper_.Look(plan_, servers_, pools_, kBeat);
  all_say();
  EXPECT_EQ(pools_[0].out, 0u);
  EXPECT_EQ(servers_[0].failing | servers_[1].failing, 0u);
  Says(0, 0, SPW_REPORT_FAILING);
  EXPECT_EQ(pools_[0].out, 1u) << "a unit that does not answer at all is out";

  Says(0, 0, 0), Says(1, 1, 0);
  keeper_.Look(plan_, servers_, pools_, kBeat);
  Says(0, 1, kErrors);
  EXPECT_EQ(servers_[0].failing, 2u) << "half of them only: their own fault";
}

TEST_F(HealthKeeperTest, UnitsThatAreNotHeardAreNoWitnessesForAnExcuse) {
  constexpr uint8_t kErrors = SPW_REPORT_FAILING | SPW_REPORT_ERRORS;
  for (uint32_t u : {0, 1}) servers_[1].load[u].report_beat = kBeat - 2000;
  for (int i = 0; i < 2; i++) {
    for (uint32_t u : {0, 1}) Says(0, u, kErrors);
    keeper_.Look(plan_, servers_, pools_, kBeat);
  }
  EXPECT_EQ(servers_[0].failing, 3u);
}

TEST_F(HealthKeeperTest, AUnitThatIsDrainedWhileItFailsHasNoPartInTheHalf) {
  Says(0, 0, SPW_REPORT_FAILING);
  servers_[0].unit[0].status = SPW_UNIT_DRAINING;
  keeper_.Look(plan_, servers_, pools_, kBeat);
  EXPECT_EQ(servers_[0].failing, 0u);
  Says(0, 0, SPW_REPORT_FAILING);
  Says(0, 0, 0);
  EXPECT_EQ(pools_[0].out, 0u);
  Says(1, 0, SPW_REPORT_FAILING);
  EXPECT_EQ(pools_[0].out, 1u);
}

TEST_F(HealthKeeperTest, WhatRacesTookOutBeyondHalfIsBroughtBackTheLastFirst) {
  Says(0, 0, SPW_REPORT_FAILING);
  servers_[0].health[0].out_beat -= 100;
  pools_[0].out = 0;
  Says(0, 1, SPW_REPORT_FAILING);
  servers_[0].health[1].out_beat -= 50;
  pools_[0].out = 0;
  Says(1, 1, SPW_REPORT_FAILING);
  keeper_.Look(plan_, servers_, pools_, kBeat);
  EXPECT_EQ(pools_[0].out, 2u);
  EXPECT_EQ(servers_[0].failing, 3u);
  EXPECT_EQ(servers_[1].failing, 0u);
}

TEST_F(HealthKeeperTest, AUnitSilentForHalfOfTheClocksRoundIsNeverHeard) {
  servers_[0].load[0].report_beat = kBeat - (1u << 31) - 1;
  keeper_.Look(plan_, servers_, pools_, kBeat);
  EXPECT_EQ(servers_[0].load[0].report_beat, 0u);
  EXPECT_EQ(servers_[0].load[1].report_beat, kBeat);
}

TEST_F(HealthKeeperTest, SetsRightWhatARaceMiscounted) {
  Says(2, 0, SPW_REPORT_FAILING);
  pools_[1].out = 7;
  keeper_.Look(plan_, servers_, pools_, kBeat);
  EXPECT_EQ(pools_[1].out, 1u);
}

TEST_F(HealthKeeperTest, TellsEachChangeOnceWithItsReason) {
  EXPECT_TRUE(News().empty());
  Says(0, 1, SPW_REPORT_FAILING | SPW_REPORT_REFUSED);
  auto news = News(kLater);
  ASSERT_EQ(news.size(), 1u);
  EXPECT_EQ(news[0].pool + "/" + news[0].server + "/" + news[0].unit, "a/s0/nic");
  EXPECT_TRUE(news[0].now.failing && news[0].now.taken_out);
  EXPECT_EQ(news[0].now.reason, FailingReason::kRefused);
  EXPECT_NEAR(news[0].now.out_ms, 524, 1);
  EXPECT_TRUE(News(kLater).empty());
  Says(0, 1, SPW_REPORT_FAILING | SPW_REPORT_ERRORS);
  news = News(kLater);
  ASSERT_EQ(news.size(), 1u);
  EXPECT_EQ(news[0].now.reason, FailingReason::kErrors);
  EXPECT_TRUE(news[0].now.taken_out);

  Says(2, 0, SPW_REPORT_FAILING);
  Says(2, 1, SPW_REPORT_FAILING);
  news = News();
  ASSERT_EQ(news.size(), 2u);
  EXPECT_EQ(news[0].now.reason, FailingReason::kUnanswered);
  EXPECT_TRUE(news[0].now.taken_out);
  EXPECT_TRUE(news[1].now.failing);
  EXPECT_FALSE(news[1].now.taken_out) << "the other half of its pool is out";

  Says(0, 1, 0);
  news = News();
  ASSERT_EQ(news.size(), 1u);
  EXPECT_FALSE(news[0].now.failing);
  EXPECT_TRUE(news[0].before.taken_out);
}

}  // namespace
}  // namespace spillway::switching

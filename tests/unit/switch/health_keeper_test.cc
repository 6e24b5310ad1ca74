// SPDX-License-Identifier: Apache-2.0
#include "switch/health_keeper.h"

#include <gtest/gtest.h>

#include <optional>

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
      servers_[code].pool = code < 2 ? 0u : 1u;
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
  std::vector<HealthNews> News(uint32_t beat = kBeat) {
    return keeper_.TakeNews(plan_, servers_, pools_, beat);
  }

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

TEST_F(HealthKeeperTest, AFailingUnitThatIsNotTakenOutHasItsReason) {
  const auto kept = [&](uint32_t code, uint32_t unit) {
    return HealthOf(servers_[code], unit, pools_[plan_.servers[code].pool], kBeat).kept;
  };
  servers_[0].unit[0].status = SPW_UNIT_DRAINING;
  Says(0, 0, SPW_REPORT_FAILING);
  EXPECT_EQ(kept(0, 0), KeptFor::kNoNewFlows);
  for (uint32_t unit : {0, 1}) servers_[2].load[unit].flags = SPW_REPORT_FAILING | SPW_REPORT_ERRORS;
  keeper_.Look(plan_, servers_, pools_, kBeat);
  EXPECT_EQ(kept(2, 0), KeptFor::kCommon);
  EXPECT_EQ(kept(2, 1), KeptFor::kCommon);
  Says(0, 1, SPW_REPORT_FAILING);
  EXPECT_FALSE(kept(0, 1)) << "it is taken out";
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

// The checks of s0/cpu, one each second, or `pace` beats. They pass from the agent's first word on.
class ExcuseTest : public HealthKeeperTest {
 protected:
  static constexpr uint32_t kPace = 1000;
  // A second of the agent, the checks and spillwayd, which ends at `beat`.
  void Second(uint32_t beat, uint8_t flags, std::optional<WitnessBeats> witness) {
    for (uint32_t code = 0; code < 3; code++)
      for (uint32_t u = 0; u < 2; u++) servers_[code].load[u].report_beat = beat;
    SaysAt(beat, flags);
    std::map<uint16_t, WitnessBeats> witnessed;
    if (witness) witnessed[spw_unit_id(0, 0)] = *witness;
    keeper_.SetWitnessed(std::move(witnessed));
    keeper_.Look(plan_, servers_, pools_, beat);
    was_out_ = IsOut();
    SaysAt(beat, flags);
  }
  void SaysAt(uint32_t beat, uint8_t flags) {
    servers_[0].load[0].flags = flags;
    spw_health_report(&servers_[0], &pools_[0], 0, flags, uint64_t{beat} << SPW_BEAT_SHIFT);
  }
  // So many of them, from kBeat + 1 on.
  void Seconds(uint32_t count, uint8_t flags = SPW_REPORT_FAILING) {
    for (uint32_t i = 0; i < count; i++) {
      now_ += kPace;
      Second(now_, flags, WitnessBeats{kBeat, now_ - 1, kPace});
    }
  }
  bool IsOut() const { return (servers_[0].failing & 1) != 0; }
  UnitHealth Health() const { return HealthOf(servers_[0], 0, pools_[0], now_); }

  uint32_t now_ = kBeat;
  bool was_out_ = false;  // when spillwayd had looked, before the next report
};

TEST_F(ExcuseTest, AUnitThatGoesOnAnsweringItsChecksIsBackAndShownSo) {
  Seconds(kWitnessPaces);
  EXPECT_TRUE(IsOut()) << "an honest agent of a unit that is slow to be believed says so, too";
  (void)News(now_);
  Seconds(2);
  EXPECT_FALSE(IsOut());
  EXPECT_EQ(pools_[0].out, 0u) << "it has no part in the half";
  EXPECT_TRUE(Health().failing && Health().excused());
  const auto news = News(now_);
  ASSERT_EQ(news.size(), 1u);
  EXPECT_TRUE(news[0].now.excused());
  Seconds(20);
  EXPECT_FALSE(IsOut());
  EXPECT_NEAR(keeper_.FailingMs(0, Health(), now_), 31 * kPace * 1.048576, 1050);
  EXPECT_TRUE(News(now_).empty());
  servers_[0].excused = 0;
  EXPECT_EQ(News(now_).size(), 1u) << "kept in for another reason";
}

TEST_F(ExcuseTest, ItIsBackAtOnceNotOnlyWithTheNextReport) {
  Seconds(12);
  EXPECT_FALSE(was_out_);
}

TEST_F(ExcuseTest, FrequentChecksWaitForTheNextReportOfTheSlowestAgent) {
  now_ += 999;
  Second(kBeat, SPW_REPORT_FAILING, std::nullopt);
  Second(now_, SPW_REPORT_FAILING, WitnessBeats{kBeat, now_, 10});
  EXPECT_TRUE(IsOut());
  now_++;
  Second(now_, SPW_REPORT_FAILING, WitnessBeats{kBeat, now_, 10});
  EXPECT_FALSE(IsOut());
}

TEST_F(ExcuseTest, ItsErrorsTakeItOutWhateverItsChecksSay) {
  Seconds(30, SPW_REPORT_FAILING | SPW_REPORT_ERRORS);
  EXPECT_TRUE(was_out_ && IsOut());
  EXPECT_EQ(servers_[0].excused, 0u);
  Seconds(12, SPW_REPORT_FAILING | SPW_REPORT_REFUSED);
  EXPECT_FALSE(IsOut());
  Seconds(1, SPW_REPORT_FAILING | SPW_REPORT_ERRORS);
  EXPECT_TRUE(IsOut());
}

TEST_F(ExcuseTest, AWordThatIsTakenBackInBetweenIsBelievedForAsLongAgain) {
  for (int i = 0; i < 60; i++) {
    SaysAt(now_, 0);  // as a check is answered; not seen by spillwayd
    Seconds(1);
    ASSERT_TRUE(IsOut()) << i;
  }
}

TEST_F(ExcuseTest, ChecksThatFailedMeanwhileAreNoExcuse) {
  for (int i = 0; i < 30; i++) {
    now_ += kPace;
    Second(now_, SPW_REPORT_FAILING, WitnessBeats{now_ - 8 * kPace, now_ - 1, kPace});
  }
  EXPECT_TRUE(IsOut());
}

TEST_F(ExcuseTest, TheExcuseEndsWithThePassesAndTheAgentIsBelievedForAsLongAgain) {
  Seconds(12);
  ASSERT_FALSE(IsOut());
  now_ += kPace;
  Second(now_, SPW_REPORT_FAILING, std::nullopt);  // a check failed
  EXPECT_TRUE(IsOut());
  Seconds(kWitnessPaces);
  EXPECT_TRUE(IsOut());
  Seconds(2);
  EXPECT_FALSE(IsOut());
}

TEST_F(ExcuseTest, ChecksThatCameToAStandstillAreNoExcuse) {
  Seconds(12);
  const uint32_t last = now_;
  for (uint32_t i = 0; i < kFreshPaces; i++) {
    EXPECT_FALSE(IsOut());
    now_ += kPace;
    Second(now_, SPW_REPORT_FAILING, WitnessBeats{kBeat, last, kPace});
  }
  now_ += kPace;
  Second(now_, SPW_REPORT_FAILING, WitnessBeats{kBeat, last, kPace});
  EXPECT_TRUE(IsOut());
}

TEST_F(ExcuseTest, AnExcuseIsOverWithTheAgentsWordAndForUnitsThatAreNotUp) {
  Seconds(12);
  ASSERT_EQ(servers_[0].excused, 1u);
  Seconds(1, 0);
  EXPECT_EQ(servers_[0].excused, 0u);
  EXPECT_FALSE(Health().failing || Health().excused());
  Seconds(12);
  ASSERT_EQ(servers_[0].excused, 1u);
  servers_[0].unit[0].status = SPW_UNIT_DRAINING;
  Seconds(1);
  EXPECT_EQ(servers_[0].excused, 0u);
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
  EXPECT_EQ(news[1].now.kept, KeptFor::kHalf);

  Says(0, 1, 0);
  news = News();
  ASSERT_EQ(news.size(), 1u);
  EXPECT_FALSE(news[0].now.failing);
  EXPECT_TRUE(news[0].before.taken_out);
}

}  // namespace
}  // namespace spillway::switching

// SPDX-License-Identifier: Apache-2.0
// When the agent says that its unit fails: each rule on readings made by hand.
#include "agent/failure_detector.h"

#include <gtest/gtest.h>

#include <random>

#include "agent/report_schedule.h"

namespace spillway::agent {
namespace {

using namespace std::chrono_literals;

// A unit in small verbs, looked at every 20 ms.
class FailureTest : public ::testing::Test {
 public:  // its verbs are chained
  FailureTest() {
    reading_.learnt.base_us = 1000;
    Look();
  }
  FailureTest& Asked(uint64_t requests) {
    reading_.arrivals += requests;
    return *this;
  }
  FailureTest& Answered(uint64_t requests) {
    reading_.completed += requests;
    if (requests > 0) reading_.error_row = 0;
    return *this;
  }
  FailureTest& Errors(uint64_t answers) {
    reading_.errors += answers;
    reading_.completed += answers;
    reading_.error_row += static_cast<uint32_t>(answers);
    return *this;
  }
  FailureTest& Accepted(uint64_t connections) {
    reading_.accepted += connections;
    return *this;
  }
  FailureTest& Refused(uint64_t requests) {
    reading_.refused += requests;
    return *this;
  }
  FailureTest& Dismissed(uint64_t requests) {
    reading_.dismissed += requests;
    return *this;
  }
  FailureTest& Stalls(Duration stall) {
    reading_.stall = stall;
    return *this;
  }
  Failure Look(Duration later = 20ms) {
    now_ += later;
    reading_.at = now_;
    return detector_.Update(now_, reading_);
  }
  // In good order for so long.
  void Serve(int looks) {
    for (int i = 0; i < looks; i++) {
      ASSERT_EQ(Asked(20).Answered(20).Stalls(0ms).Look(), Failure::kNone);
    }
  }

  FailingConfig config_;
  FailureDetector detector_{config_};
  Reading reading_;
  Time now_{1s};
};

TEST_F(FailureTest, AMuteUnitFailsAfterTenLatencies) {
  Serve(10);
  reading_.learnt.base_us = 4000;  // 45 ms
  EXPECT_EQ(Asked(20).Stalls(44ms).Look(), Failure::kNone);
  EXPECT_EQ(Asked(20).Stalls(46ms).Look(), Failure::kUnanswered);
  EXPECT_EQ(Asked(20).Stalls(10s).Look(), Failure::kUnanswered);
  EXPECT_EQ(Stalls(0ms).Look(), Failure::kUnanswered) << "what was given up was not answered";
  EXPECT_EQ(Answered(1).Look(), Failure::kNone);
}

TEST_F(FailureTest, QuickUnitsHave20Milliseconds) {
  reading_.learnt.base_us = 30;
  EXPECT_EQ(Asked(20).Stalls(20ms).Look(), Failure::kNone);
  EXPECT_EQ(Asked(20).Stalls(21ms).Look(), Failure::kUnanswered);
}

TEST_F(FailureTest, AUnitThatPausesIsGivenTwiceItsPauseOnceThatIsKnown) {
  EXPECT_EQ(Asked(20).Stalls(30ms).Look(), Failure::kUnanswered) << "who could know";
  EXPECT_EQ(Answered(20).Stalls(0ms).Look(), Failure::kNone);  // after 50 ms in all
  EXPECT_EQ(Asked(20).Stalls(98ms).Look(), Failure::kNone);
  EXPECT_EQ(Asked(20).Stalls(102ms).Look(), Failure::kUnanswered);
  EXPECT_EQ(Look(80ms), Failure::kUnanswered);
  EXPECT_EQ(Answered(1).Stalls(0ms).Look(), Failure::kUnanswered) << "it failed just before: two are wanted";
  EXPECT_EQ(Answered(1).Look(), Failure::kNone);
}

TEST_F(FailureTest, PausesGrantAQuarterOfASecondAtMostAndAnOutageNothing) {
  ASSERT_EQ(Asked(20).Stalls(200ms).Look(), Failure::kUnanswered);
  ASSERT_EQ(Answered(20).Stalls(0ms).Look(), Failure::kNone);
  EXPECT_EQ(Asked(20).Stalls(249ms).Look(), Failure::kNone);
  EXPECT_EQ(Asked(20).Stalls(251ms).Look(), Failure::kUnanswered);

  detector_ = FailureDetector(config_);
  Look();
  ASSERT_EQ(Asked(20).Stalls(40ms).Look(), Failure::kUnanswered);
  ASSERT_EQ(Look(2s), Failure::kUnanswered);
  ASSERT_EQ(Answered(20).Stalls(0ms).Look(), Failure::kNone);
  EXPECT_EQ(Asked(20).Stalls(21ms).Look(), Failure::kUnanswered) << "as quick as before";
}

TEST_F(FailureTest, AUnitOfUnknownLatencyHasASecond) {
  reading_.learnt = {};
  EXPECT_EQ(Asked(20).Stalls(999ms).Look(), Failure::kNone);
  EXPECT_EQ(Asked(20).Stalls(1001ms).Look(), Failure::kUnanswered);
}

TEST_F(FailureTest, OneOrTwoUnansweredRequestsSayNothing) {
  Serve(5);
  EXPECT_EQ(Asked(2).Stalls(9s).Look(), Failure::kNone);
  EXPECT_EQ(Asked(1).Look(), Failure::kUnanswered);
}

TEST_F(FailureTest, AcceptedConnectionsAreNoLifeOfAMuteUnit) {
  ASSERT_EQ(Asked(20).Stalls(1s).Look(), Failure::kUnanswered);
  EXPECT_EQ(Accepted(5).Look(), Failure::kUnanswered);
  EXPECT_EQ(Answered(1).Look(), Failure::kNone);
}

TEST_F(FailureTest, ThreeRefusalsInARowAreEnough) {
  Serve(50);
  EXPECT_EQ(Refused(2).Look(), Failure::kNone);
  EXPECT_EQ(Refused(1).Look(), Failure::kRefused);
  EXPECT_EQ(Refused(100).Look(), Failure::kRefused);
  EXPECT_EQ(Accepted(1).Look(), Failure::kNone) << "the port is open again";
}

TEST_F(FailureTest, RefusalsBetweenAnswersAreNotInARow) {
  Serve(50);
  for (int i = 0; i < 50; i++) ASSERT_EQ(Asked(20).Answered(18).Refused(2).Look(), Failure::kNone);
  for (int i = 0; i < 50; i++) ASSERT_EQ(Accepted(10).Refused(4).Look(), Failure::kNone);
}

// What a client sends before it closes its side may be QUIT, or its request.
TEST_F(FailureTest, WhatClientsThatHaveClosedTheirSideGetNoAnswerToIsARefusalOnlyIfNothingIsAnswered) {
  Serve(50);
  for (int i = 0; i < 50; i++)
    ASSERT_EQ(Asked(20).Accepted(10).Answered(10).Dismissed(10).Look(), Failure::kNone) << "farewells";
  EXPECT_EQ(Accepted(2).Dismissed(2).Look(), Failure::kNone);
  EXPECT_EQ(Accepted(2).Dismissed(2).Look(), Failure::kRefused) << "requests";
  EXPECT_EQ(Accepted(4).Dismissed(4).Look(), Failure::kRefused);
  EXPECT_EQ(Accepted(1).Answered(4).Dismissed(1).Look(), Failure::kNone);
}

// Linux refuses each client six times and then once a second.
TEST_F(FailureTest, AfterARefusalAShortPauseIsEnough) {
  Serve(50);
  ASSERT_EQ(Asked(20).Answered(5).Refused(2).Look(), Failure::kNone) << "it died between two looks";
  EXPECT_EQ(Asked(20).Stalls(9ms).Look(), Failure::kNone);
  EXPECT_EQ(Asked(20).Stalls(11ms).Look(), Failure::kRefused);
  ASSERT_EQ(Answered(1).Stalls(0ms).Look(), Failure::kNone);

  Serve(500);
  ASSERT_EQ(Asked(20).Answered(18).Refused(2).Look(), Failure::kNone);
  Serve(60);
  EXPECT_EQ(Asked(20).Stalls(15ms).Look(), Failure::kNone) << "that refusal was long ago";
}

TEST_F(FailureTest, AUnitThatFailsFastIsOutByItsShareAndBackAfterFourGood) {
  Serve(50);
  Failure failure = Failure::kNone;
  int looks = 0;
  while (failure == Failure::kNone && looks++ < 100) failure = Asked(10).Answered(4).Refused(6).Look();
  EXPECT_EQ(failure, Failure::kRefused);
  EXPECT_LE(looks, 20);
  EXPECT_EQ(Answered(3).Look(), Failure::kRefused);
  EXPECT_EQ(Refused(2).Look(), Failure::kRefused) << "a refusal outweighs a good answer";
  EXPECT_EQ(Answered(2).Look(), Failure::kRefused);
  EXPECT_EQ(Answered(1).Look(), Failure::kNone);
}

TEST_F(FailureTest, ABurstOfRefusalsTakesOutNoUnitThatAnswersTheOthers) {
  Serve(50);
  EXPECT_EQ(Asked(150).Answered(20).Refused(130).Look(), Failure::kNone) << "one client's";
  Serve(50);
}

TEST_F(FailureTest, ARefusalAtEachLookKeepsNoUnitOut) {
  ASSERT_EQ(Refused(3).Look(), Failure::kRefused);
  EXPECT_EQ(Asked(20).Answered(20).Refused(1).Look(), Failure::kNone);
}

TEST_F(FailureTest, OneThatAcceptsAndThenResetsFailsAndStaysOut) {
  Serve(50);
  EXPECT_EQ(Accepted(3).Refused(3).Look(), Failure::kRefused);
  uint32_t well = 0;
  for (int probe = 0; probe < 100; probe++) {  // the reset comes a look later than the connection
    well += Accepted(1).Look() == Failure::kNone;
    well += Refused(1).Look() == Failure::kNone;
    for (int i = 0; i < 3; i++) well += Accepted(1).Refused(1).Look() == Failure::kNone;
  }
  EXPECT_LT(well, 20u) << "of 500 looks";
}

TEST_F(FailureTest, TheShareIsTheConfigurationsToSay) {
  config_.refused_share = 0.1;
  detector_ = FailureDetector(config_);
  Look();
  Failure failure = Failure::kNone;
  for (int i = 0; i < 50 && failure == Failure::kNone; i++)
    failure = Asked(20).Answered(15).Refused(5).Look();
  EXPECT_EQ(failure, Failure::kRefused);
}

TEST_F(FailureTest, AUnitWhoseAnswersAreErrorsFailsWithinADozenAndIsBackAfterFourGood) {
  EXPECT_EQ(Asked(7).Errors(7).Look(), Failure::kNone)
      << "it has just started, and these may be nobody's fault";
  EXPECT_EQ(Asked(5).Errors(5).Look(), Failure::kErrors);
  EXPECT_EQ(Accepted(9).Look(), Failure::kErrors) << "programs accept connections to answer errors";
  EXPECT_EQ(Errors(1).Look(), Failure::kErrors);
  EXPECT_EQ(Answered(3).Look(), Failure::kErrors);
  EXPECT_EQ(Answered(1).Look(), Failure::kNone);
}

TEST_F(FailureTest, ADozenErrorsInAQuickRowAreEnoughWhateverCameBefore) {
  Serve(50);
  EXPECT_EQ(Asked(30).Answered(5).Errors(11).Look(), Failure::kNone);
  EXPECT_EQ(Errors(1).Look(2ms), Failure::kErrors);
  EXPECT_EQ(Answered(3).Look(), Failure::kErrors);
  EXPECT_EQ(Answered(1).Look(), Failure::kNone);
}

TEST_F(FailureTest, ASlowRowOfErrorsIsLeftToTheirShare) {
  Serve(50);
  for (int i = 0; i < 20; i++) ASSERT_EQ(Asked(1).Errors(1).Look(50ms), Failure::kNone) << i;
  EXPECT_EQ(Asked(30).Errors(30).Look(), Failure::kErrors);
}

TEST_F(FailureTest, AClientThatCausesRowsOfErrorsIsTakenForAFailureOnceAtMost) {
  Serve(50);
  ASSERT_EQ(Asked(12).Errors(12).Look(), Failure::kErrors);
  ASSERT_EQ(Answered(4).Look(), Failure::kNone) << "no outage: it was over at once";
  Serve(150);
  for (int i = 0; i < 10; i++) {
    EXPECT_EQ(Asked(12).Errors(15).Look(), Failure::kNone) << i;
    Serve(20);
  }
  EXPECT_EQ(Asked(30).Errors(30).Look(), Failure::kErrors);
}

TEST_F(FailureTest, AnOutageTeachesNoLongerRows) {
  Serve(50);
  ASSERT_EQ(Asked(12).Errors(12).Look(), Failure::kErrors);
  ASSERT_EQ(Look(2s), Failure::kErrors);
  ASSERT_EQ(Answered(4).Look(), Failure::kNone);
  Serve(150);
  EXPECT_EQ(Asked(12).Errors(12).Look(), Failure::kErrors);
}

TEST_F(FailureTest, ARowThatWasThereBeforeTheAgentIsNoNews) {
  reading_.error_row = reading_.errors = reading_.completed = 100;
  detector_ = FailureDetector(config_);
  Look();
  EXPECT_EQ(Look(), Failure::kNone);
}

TEST_F(FailureTest, ErrorsAmongGoodAnswersAreBorneBelowTheirShare) {
  Serve(50);
  for (int i = 0; i < 500; i++) ASSERT_EQ(Asked(20).Answered(12).Errors(8).Look(), Failure::kNone);
  Failure failure = Failure::kNone;
  int looks = 0;
  while (failure == Failure::kNone && looks++ < 20) failure = Asked(20).Answered(8).Errors(12).Look();
  EXPECT_EQ(failure, Failure::kErrors);
}

TEST_F(FailureTest, AThrongOfGoodAnswersWithSomeErrorsBringsTheUnitBack) {
  ASSERT_EQ(Asked(100).Errors(100).Look(), Failure::kErrors);
  EXPECT_EQ(Answered(45).Errors(55).Look(), Failure::kErrors);
  EXPECT_EQ(Answered(95).Errors(5).Look(), Failure::kNone) << "connections that stayed are never without one";
}

TEST_F(FailureTest, OneWhoseHalfIsErrorsStaysOutLongerEachTime) {
  std::mt19937 random(1);
  Serve(50);
  int out = 0;
  for (int i = 0; i < 5000; i++)  // six in ten, one at a time
    out += (random() % 10 < 6 ? Errors(1) : Answered(1)).Look() == Failure::kErrors;
  EXPECT_GT(out, 4000) << "of 5000 looks";
}

TEST_F(FailureTest, WithAShareOfOneOnlyErrorsAloneAreAFailure) {
  config_.error_share = 1;
  detector_ = FailureDetector(config_);
  Look();
  Serve(50);
  for (int i = 0; i < 100; i++) ASSERT_EQ(Asked(20).Answered(1).Errors(19).Look(), Failure::kNone);
  Failure failure = Failure::kNone;
  int looks = 0;
  while (failure == Failure::kNone && looks++ < 10) failure = Asked(20).Errors(20).Look();
  EXPECT_EQ(failure, Failure::kErrors);
  EXPECT_EQ(Errors(5).Answered(4).Look(), Failure::kNone);
}

TEST_F(FailureTest, ADeadUnitThatComesBackWithErrorsAloneStaysOutForThat) {
  ASSERT_EQ(Asked(20).Stalls(1s).Look(), Failure::kUnanswered);
  EXPECT_EQ(Errors(1).Stalls(0ms).Look(), Failure::kErrors);
  EXPECT_EQ(Errors(10).Look(), Failure::kErrors);
  EXPECT_EQ(Answered(1).Look(), Failure::kNone);
  Serve(300);
  ASSERT_EQ(Refused(3).Look(), Failure::kRefused);
  EXPECT_EQ(Errors(2).Look(), Failure::kErrors);
  EXPECT_EQ(Refused(1).Look(), Failure::kErrors);
  EXPECT_EQ(Answered(1).Look(), Failure::kNone);
}

TEST_F(FailureTest, AnErrorSeenBeforeItsAnswerWaitsForIt) {
  ASSERT_EQ(Asked(20).Stalls(1s).Look(), Failure::kUnanswered);
  reading_.errors++;
  EXPECT_EQ(Look(), Failure::kUnanswered);
  EXPECT_EQ(Answered(1).Look(), Failure::kErrors);
  EXPECT_EQ(Answered(1).Look(), Failure::kNone);
}

TEST_F(FailureTest, TheTimeCanBeFixed) {
  config_.after = 3s;
  detector_ = FailureDetector(config_);
  Look();
  EXPECT_EQ(Asked(20).Stalls(2999ms).Look(), Failure::kNone);
  EXPECT_EQ(Asked(20).Stalls(3001ms).Look(), Failure::kUnanswered);
}

TEST_F(FailureTest, OneThatFailsAgainAndAgainMustShowMore) {
  uint64_t wanted = 1;
  for (int relapse = 0; relapse < 6; relapse++) {
    ASSERT_EQ(Asked(20).Stalls(1s).Look(), Failure::kUnanswered) << relapse;
    for (uint64_t i = 1; i < wanted; i++) ASSERT_EQ(Answered(1).Look(), Failure::kUnanswered) << relapse;
    ASSERT_EQ(Answered(1).Look(), Failure::kNone) << relapse;
    wanted = std::min<uint64_t>(wanted * 2, 8);
  }
  Serve(300);  // 6 s
  ASSERT_EQ(Asked(20).Stalls(1s).Look(), Failure::kUnanswered);
  EXPECT_EQ(Answered(1).Stalls(0ms).Look(), Failure::kNone) << "forgiven";
}

TEST_F(FailureTest, WhatWasCountedBeforeTheAgentStartedIsNoNews) {
  Reading old = reading_;
  old.arrivals = old.completed = old.errors = old.refused = 1000;
  FailureDetector fresh(config_);
  EXPECT_EQ(fresh.Update(5s, old), Failure::kNone);
  old.stall = 10s;
  EXPECT_EQ(fresh.Update(6s, old), Failure::kNone);
  old.arrivals = 5;  // the meter was restarted
  old.refused = 3;
  EXPECT_EQ(fresh.Update(7s, old), Failure::kNone);
}

TEST(ReportScheduleOfFailures, IsRepeatedWhileItFailsAndThreeTimesAfter) {
  ReportConfig config;
  config.mode = ReportMode::kOnThreshold;
  ReportSchedule schedule(config);
  schedule.Sent(0ms);
  ASSERT_FALSE(schedule.Due(20ms, true, false));
  for (int look = 1; look <= 5; look++) {  // failing
    schedule.Repeat();
    EXPECT_TRUE(schedule.Due(look * 20ms, true, false));
    schedule.Sent(look * 20ms);
  }
  for (int look = 6; look <= 7; look++) {
    EXPECT_TRUE(schedule.Due(look * 20ms, true, false));
    schedule.Sent(look * 20ms);
  }
  EXPECT_FALSE(schedule.Due(160ms, true, false));
}

}  // namespace
}  // namespace spillway::agent

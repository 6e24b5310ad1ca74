// SPDX-License-Identifier: Apache-2.0
// The experiments on lists small enough to be worked out by hand, and the exact solver's side.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "scheduler/cbc.h"
#include "scheduler/milp.h"
#include "scheduler/sched_report.h"

namespace spillway::scheduler {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TraceJob Timed(int milli, int64_t from_h, int64_t to_h) {
  TraceJob one;
  one.job.milli = milli;
  one.arrives_s = from_h * 3600;
  one.leaves_s = to_h * 3600;
  return one;
}

double Hours(const JobList& list, SharePolicy policy, const GpuHoursOptions& options = {}) {
  return RunGpuHours(list, policy, options).gpu_hours;
}

// Two halves meet on one GPU; when the middle one has gone, the outer ones could share.
JobList Halves() {
  JobList list;
  list.jobs = {Timed(500, 0, 10), Timed(600, 1, 3), Timed(400, 2, 10)};
  return list;
}

TEST(GpuHours, EveryPolicyTurnsOnWhatItsRuleSays) {
  const JobList list = Halves();
  EXPECT_DOUBLE_EQ(Hours(list, SharePolicy::kNoSharing), 10 + 2 + 8);
  EXPECT_DOUBLE_EQ(Hours(list, SharePolicy::kLeastLoaded), 10 + 2 + 8);
  // 400 goes to the first with room (500), 600 stays alone.
  EXPECT_DOUBLE_EQ(Hours(list, SharePolicy::kFirstFit), 10 + 2);
  // To the fullest with room (600), and alone from when that one leaves.
  EXPECT_DOUBLE_EQ(Hours(list, SharePolicy::kBestFit), 10 + 9);
  // 2, 3 and 2 quarters: no two but the first and the last fit together.
  EXPECT_DOUBLE_EQ(Hours(list, SharePolicy::kStaticQuarters), 10 + 2);
}

TEST(GpuHours, OursMovesAJobWhenThatSavesAGpu) {
  const GpuHoursRun run = RunGpuHours(Halves(), SharePolicy::kSpillway, {});
  EXPECT_DOUBLE_EQ(run.gpu_hours, 10 + 2) << "two GPUs from hour 1 to 3 are the least that holds them";
  EXPECT_EQ(run.migrations, 1) << "best fit at hour 2, together at hour 3";
  EXPECT_EQ(run.peak_gpus, 2);
}

TEST(GpuHours, TheBudgetOfMigrationsHolds) {
  GpuHoursOptions options;
  options.moves.budget = 0;
  const GpuHoursRun run = RunGpuHours(Halves(), SharePolicy::kSpillway, options);
  EXPECT_EQ(run.migrations, 0);
  EXPECT_DOUBLE_EQ(run.gpu_hours, 10 + 9);
}

TEST(GpuHours, TheRuleRoundsUpToSlices) {
  JobList list;
  list.jobs = {Timed(500, 0, 1), Timed(500, 0, 1)};
  GpuHoursOptions options;
  EXPECT_DOUBLE_EQ(Hours(list, SharePolicy::kFirstFit, options), 1);
  options.rule = ShareRule::kCompute;  // two 4g do not fit
  EXPECT_DOUBLE_EQ(Hours(list, SharePolicy::kFirstFit, options), 2);
  options.rule = ShareRule::kMemory;  // two 3g do
  EXPECT_DOUBLE_EQ(Hours(list, SharePolicy::kFirstFit, options), 1);
}

TEST(GpuHours, WholeGpusCountUnderAnyPolicy) {
  JobList list;
  list.jobs = {Timed(1000, 0, 2), Timed(1000, 1, 2), Timed(500, 5, 5)};
  list.jobs[1].job.gpus = 4;
  for (const SharePolicy policy : kSharePolicies)
    EXPECT_DOUBLE_EQ(Hours(list, policy), 2 + 4) << ToString(policy);
}

TEST(GpuHours, BusyMovesArrivalsTogetherAndEndsWithTheLast) {
  JobList list;
  list.jobs = {Timed(1000, 0, 1), Timed(1000, 0, 1)};
  list.jobs[0].arrives_s = kBusyFrom, list.jobs[0].leaves_s = kBusyFrom + 36000;
  list.jobs[1].arrives_s = kBusyFrom + 720000, list.jobs[1].leaves_s = kBusyFrom + 800000;
  GpuHoursOptions options;
  options.busy = 100;
  // The second comes after 7,200 s; there the first ends, and the second lasts no time.
  EXPECT_DOUBLE_EQ(Hours(list, SharePolicy::kFirstFit, options), 2);
}

TEST(GpuHours, SavingsAreNamedByTheirBaseline) {
  const JobList list = Halves();
  std::vector<GpuHoursRun> runs;
  for (const SharePolicy policy : kSharePolicies) runs.push_back(RunGpuHours(list, policy, {}));
  const report::Document document = GpuHoursDocument("halves", runs, 1);
  const auto& ours = document.rows().back();
  EXPECT_EQ(ours["policy"], "spillway");
  EXPECT_EQ(ours["shares"], "exact");
  EXPECT_DOUBLE_EQ(ours["saved_vs_no_sharing_pct"].get<double>(), 40);
  EXPECT_DOUBLE_EQ(ours["saved_vs_first_fit_pct"].get<double>(), 0);
  EXPECT_THAT(GpuHoursPage("halves", runs, document).Render(), HasSubstr("<svg"));
}

TEST(GpuHours, AColumnHasOneNumberOfDecimals) {
  GpuHoursRun first, second;
  first.policy = SharePolicy::kNoSharing;
  first.gpu_hours = 59781.2968;
  second.policy = SharePolicy::kSpillway;
  second.gpu_hours = 60000;
  const std::string months = GpuHoursText(GpuHoursDocument("x", {first, second}, 1));
  for (const char* cell : {" 59781.3 ", " 60000.0 ", " 0.00", " -0.37"}) EXPECT_THAT(months, HasSubstr(cell));
  first.gpu_hours = 200.0 / 3600;
  second.gpu_hours = 100.0 / 3600;
  const report::Document seconds = GpuHoursDocument("x", {first, second}, 1);
  EXPECT_DOUBLE_EQ(seconds.rows()[0]["gpu_hours"].get<double>(), 0.056);
  for (const char* cell : {" 0.056 ", " 0.028 ", " 50.00"})
    EXPECT_THAT(GpuHoursText(seconds), HasSubstr(cell));
}

NodeList TwoNodes() {
  NodeList list;
  list.models = {{"T4", 1, false, 0}};
  for (const char* name : {"a", "b"}) {
    Node node;
    node.name = name;
    node.gpus = 4;
    list.nodes.push_back(node);
  }
  return list;
}

TEST(Placement, JobsAreExtendedToTheDemandAndShuffledBySeed) {
  JobList list;
  list.jobs = {Timed(250, 0, 1), Timed(750, 0, 1)};
  const auto jobs = DrawJobs(list, 8000, 1);
  int64_t asked = 0;
  for (const Job& job : jobs) asked += job.TotalMilli();
  EXPECT_GE(asked, 10'400);
  EXPECT_LT(asked, 10'400 + 750);
  EXPECT_EQ(DrawJobs(list, 8000, 1), jobs);
  EXPECT_NE(DrawJobs(list, 8000, 2), jobs);
}

TEST(Placement, JobsThatAskForNoGpuAreNotRepeatedForEver) {
  JobList list;
  list.jobs = {Timed(0, 0, 1)};
  list.jobs[0].job.gpus = 0;
  EXPECT_EQ(DrawJobs(list, 8000, 1).size(), 1u);
}

TEST(Placement, AllocatesWhatFitsAndTheSameEveryTime) {
  JobList list;
  list.jobs = {Timed(500, 0, 1)};
  const PlacementOptions options{{Policy::kSpillway, Policy::kRandom}, Objective::kFragmentation, 2};
  const auto runs = RunPlacement(TwoNodes(), list, options, {}, {});
  ASSERT_EQ(runs.size(), 4u);
  EXPECT_DOUBLE_EQ(runs[0].at_130, 100) << "halves fill every GPU";
  EXPECT_GT(runs[0].dropped, 0);
  const auto again = RunPlacement(TwoNodes(), list, options, {}, {});
  for (size_t i = 0; i < runs.size(); ++i) EXPECT_EQ(runs[i].curve, again[i].curve);
  const report::Document document = PlacementDocument("halves", runs, 2);
  EXPECT_EQ(document.rows()[0]["policy"], "spillway");
  EXPECT_EQ(document.rows()[0]["alloc_pct_at_130"], 100.0);
}

TEST(Snapshots, AreTheSameForTheSameSeedAndKeepTheRules) {
  for (const Isolation level : {Isolation::kNone, Isolation::kFraction, Isolation::kGpu})
    for (uint64_t seed = 1; seed <= 20; ++seed) {
      const Snapshot snapshot = DrawSnapshot(seed, level, 15);
      EXPECT_LE(snapshot.jobs.size(), 15u);
      EXPECT_EQ(WriteMilp(snapshot), WriteMilp(DrawSnapshot(seed, level, 15)));
      const Answer answer = AnswerOnline(snapshot);
      EXPECT_TRUE(answer.feasible) << ToString(level) << " seed " << seed;
    }
}

TEST(Snapshots, JudgeCountsGpusAndMovesAndRefusesWhatDoesNotFit) {
  Snapshot snapshot;
  snapshot.gpus = 3;
  Job half;
  half.milli = 500;
  half.move_cost = 2;
  snapshot.jobs = {half, half, half};
  snapshot.homes = {{0, 0, -1}, {1, 0, -1}, {}};
  const Answer stays = Judge(snapshot, {{0, 0, -1}, {1, 0, -1}, {1, 0, -1}});
  EXPECT_TRUE(stays.feasible);
  EXPECT_DOUBLE_EQ(stays.objective, 20);
  const Answer moves = Judge(snapshot, {{1, 0, -1}, {1, 0, -1}, {2, 0, -1}});
  EXPECT_DOUBLE_EQ(moves.objective, 22);
  EXPECT_EQ(moves.moves, 1);
  EXPECT_FALSE(Judge(snapshot, {{1, 0, -1}, {1, 0, -1}, {1, 0, -1}}).feasible);
  EXPECT_FALSE(Judge(snapshot, {{1, 0, -1}, {1, 0, -1}, {9, 0, -1}}).feasible);
}

TEST(OptimalCheck, ListsEveryGapAndFault) {
  CheckOptions options;
  options.levels = {Isolation::kNone};
  options.snapshots = 2;
  options.threads = 2;
  const auto wrong = CheckOptimal(options,
                                  [](const std::string&) {
                                    return Result<CbcSolution>(CbcSolution{true, 1, {}});
                                  },
                                  {}, {});
  ASSERT_TRUE(wrong);
  EXPECT_FALSE((*wrong)[0].Same()) << "an optimum of 1 is less than any GPU costs";
  EXPECT_THAT(CheckText(*wrong), HasSubstr("Every gap:"));
  const auto absurd = CheckOptimal(options,
                                   [](const std::string&) {
                                     return Result<CbcSolution>(CbcSolution{true, 1e9, {}});
                                   },
                                   {}, {});
  EXPECT_EQ((*absurd)[1].fault, "ours is better than the optimum");
  const auto failed = CheckOptimal(
      options,
      [](const std::string&) -> Result<CbcSolution> { return Fail(ErrorCode::kUnavailable, "no solver"); },
      {}, {});
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().message, "no solver");
}

// Ctrl-C reaches the solver, too, which then ends as if it had failed.
TEST(OptimalCheck, WhatASolverSaysAfterAnInterruptIsNoFailure) {
  CheckOptions options;
  options.levels = {Isolation::kNone};
  options.snapshots = 3;
  options.threads = 1;
  bool interrupted = false;
  int asked = 0;
  const auto checked = CheckOptimal(
      options,
      [&](const std::string&) -> Result<CbcSolution> {
        if (++asked == 1) return CbcSolution{true, 1, {}};
        interrupted = true;
        return Fail(ErrorCode::kSystem, "stopped");
      },
      {}, [&] { return interrupted; });
  ASSERT_TRUE(checked) << checked.error().message;
  EXPECT_EQ(checked->size(), 1u);
  EXPECT_EQ(asked, 2);
}

class Exact : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto probe = SolveWithCbc("Minimize\n obj: x\nSubject To\n c: x >= 1\nBinary\n x\nEnd\n", 10);
    if (!probe && probe.error().code == ErrorCode::kUnavailable) GTEST_SKIP() << probe.error().message;
    ASSERT_TRUE(probe) << probe.error().message;
    EXPECT_DOUBLE_EQ(probe->objective, 1);
    EXPECT_THAT(probe->ones, ElementsAre("x"));
  }
};

TEST_F(Exact, NoPlacementIsAnAnswer) {
  const auto none = SolveWithCbc("Minimize\n obj: x\nSubject To\n c: x >= 2\nBinary\n x\nEnd\n", 10);
  ASSERT_TRUE(none) << none.error().message;
  EXPECT_FALSE(none->feasible);
}

TEST_F(Exact, ItsPlacementKeepsOurRulesAndCostsWhatItSays) {
  for (const Isolation level : {Isolation::kNone, Isolation::kFraction, Isolation::kGpu})
    for (uint64_t seed = 1; seed <= 3; ++seed) {
      const Snapshot snapshot = DrawSnapshot(seed, level, 9);
      const auto solved = SolveWithCbc(WriteMilp(snapshot), 60);
      ASSERT_TRUE(solved) << solved.error().message;
      const auto spots = ReadPlacement(snapshot, solved->ones);
      ASSERT_TRUE(spots);
      const Answer judged = Judge(snapshot, *spots);
      EXPECT_TRUE(judged.feasible) << ToString(level) << " seed " << seed;
      EXPECT_NEAR(judged.objective, solved->objective, 1e-6);
      EXPECT_GE(AnswerOnline(snapshot).objective, solved->objective - 1e-6);
    }
}

TEST_F(Exact, LeavingOutTheSmallerFractionsChangesNothingWhereJobsMayShareOne) {
  for (const Isolation level : {Isolation::kNone, Isolation::kGpu})
    for (uint64_t seed = 1; seed <= 2; ++seed) {
      const Snapshot snapshot = DrawSnapshot(seed, level, 5);
      EXPECT_NEAR(SolveWithCbc(WriteMilp(snapshot, true), 60)->objective,
                  SolveWithCbc(WriteMilp(snapshot), 60)->objective, 1e-6);
    }
}

}  // namespace
}  // namespace spillway::scheduler

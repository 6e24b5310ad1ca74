// SPDX-License-Identifier: Apache-2.0
// The experiments on lists small enough to be worked out by hand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "scheduler/replay/reports.h"

namespace spillway::scheduler {
namespace {

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
  GpuHoursOptions options;
  list.jobs[0].arrives_s = options.busy_from, list.jobs[0].leaves_s = options.busy_from + 36000;
  list.jobs[1].arrives_s = options.busy_from + 720000, list.jobs[1].leaves_s = options.busy_from + 800000;
  options.busy = 100;
  // The second comes after 7,200 s; there the first ends, and the second lasts no time.
  EXPECT_DOUBLE_EQ(Hours(list, SharePolicy::kFirstFit, options), 2);
}

TEST(GpuHours, BusyBeginsWhereTheListDoes) {
  const JobList list = Halves();  // all come in the first three hours
  GpuHoursOptions options;
  options.busy = 2;
  EXPECT_FALSE(AnyLasts(list, options)) << "all came before the time begins, and end with the last";
  options.busy_from = 0;
  EXPECT_TRUE(AnyLasts(list, options));
  // At 0, 0.5 and 1, all ended at 1.
  EXPECT_DOUBLE_EQ(Hours(list, SharePolicy::kNoSharing, options), 1 + 0.5);
}

// What a saving is due to: where a new job goes, or moves that others are denied.
TEST(GpuHours, MovesAreShownApartFromWhereNewJobsGo) {
  const GpuHoursRun without = RunGpuHours(Halves(), SharePolicy::kSpillwayWithoutMoves, {});
  EXPECT_EQ(without.migrations, 0);
  EXPECT_DOUBLE_EQ(without.gpu_hours, 10 + 9) << "as best fit";
  // At 0 and 2 on one GPU, 600 alone: nothing is to be gained by moves. Then two halves apart from each
  // other.
  EXPECT_EQ(RunGpuHours(Halves(), SharePolicy::kFirstFitWithMoves, {}).migrations, 0);
  JobList apart;
  apart.jobs = {Timed(600, 0, 2), Timed(500, 0, 10), Timed(400, 1, 10)};
  EXPECT_DOUBLE_EQ(Hours(apart, SharePolicy::kFirstFit), 10 + 10);
  const GpuHoursRun moved = RunGpuHours(apart, SharePolicy::kFirstFitWithMoves, {});
  EXPECT_EQ(moved.migrations, 1);
  EXPECT_DOUBLE_EQ(moved.gpu_hours, 10 + 2);
}

TEST(GpuHours, AMoveIsPricedAndWhatItSavesIsSaid) {
  std::vector<GpuHoursRun> runs;
  for (const SharePolicy policy : kSharePolicies) runs.push_back(RunGpuHours(Halves(), policy, {}));
  const report::Document document = GpuHoursDocument("halves", runs, {});
  const auto& ours = document.rows().back();
  EXPECT_DOUBLE_EQ(ours["gpu_hours_and_moves"].get<double>(), 12 + 0.3);
  EXPECT_DOUBLE_EQ(ours["saved_per_move_gpu_min"].get<double>(), 60 * 7) << "19 hours without moves";
  EXPECT_DOUBLE_EQ(ours["saved_vs_spillway_without_moves_pct"].get<double>(), 36.84);
  EXPECT_EQ(document.rows()[0]["saved_per_move_gpu_min"], nullptr);
  EXPECT_DOUBLE_EQ(document.rows()[0]["gpu_hours_and_moves"].get<double>(), 20);
}

TEST(GpuHours, SavingsAreNamedByTheirBaseline) {
  const JobList list = Halves();
  std::vector<GpuHoursRun> runs;
  for (const SharePolicy policy : kSharePolicies) runs.push_back(RunGpuHours(list, policy, {}));
  const report::Document document = GpuHoursDocument("halves", runs, {});
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
  const std::string months = GpuHoursText(GpuHoursDocument("x", {first, second}, {}));
  for (const char* cell : {" 59781.3 ", " 60000.0 ", " 0.00", " -0.37"}) EXPECT_THAT(months, HasSubstr(cell));
  first.gpu_hours = 200.0 / 3600;
  second.gpu_hours = 100.0 / 3600;
  const report::Document seconds = GpuHoursDocument("x", {first, second}, {});
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

TEST(Placement, AListThatAsksForMoreIsCutAtTheDemand) {
  JobList list;
  for (int i = 0; i < 100; ++i) list.jobs.push_back(Timed(1000, 0, 1));
  EXPECT_EQ(DrawJobs(list, 8000, 1).size(), 11u) << "10.4 GPUs";
  const auto runs =
      RunPlacement(TwoNodes(), list, {{Policy::kFirstFit}, Objective::kFragmentation, 1}, {}, {});
  EXPECT_EQ(runs.at(0).dropped, 3);
}

// Jobs of three leave a GPU of each node, which in the end, at 3,900 % of the demand, the small ones fill.
TEST(Placement, TheFigureAt130PercentIsThatAt130Percent) {
  JobList list;
  for (int i = 0; i < 200; ++i) list.jobs.push_back(Timed(i % 2 == 0 ? 1000 : 100, 0, 1));
  for (TraceJob& one : list.jobs)
    if (one.job.milli == 1000) one.job.gpus = 3;
  const auto runs =
      RunPlacement(TwoNodes(), list, {{Policy::kFirstFit}, Objective::kFragmentation, 3}, {}, {});
  for (const PlacementRun& run : runs) {
    ASSERT_EQ(run.curve.size(), 1u + kDemandPct / kCurveStep);
    EXPECT_DOUBLE_EQ(run.at_130, run.curve.back());
    EXPECT_LT(run.at_130, 95);
  }
}

TEST(Placement, EachRuleOfPricesHasARowBesideTheOneThatIsRehearsed) {
  JobList list;
  list.jobs = {Timed(500, 0, 1), Timed(250, 0, 1)};
  PlacementOptions options;
  options.policies = {Policy::kSpillway, Policy::kFgd};
  options.seeds = 2;
  for (const PriceRule rule : kPriceRules) options.prices.emplace_back(rule);
  const auto runs = RunPlacement(TwoNodes(), list, options, {}, {});
  ASSERT_EQ(runs.size(), 10u);
  EXPECT_EQ(CountRuns(options), 10u);
  const report::Document document = PlacementDocument("l", runs);
  const auto& rows = document.rows();
  ASSERT_EQ(rows.size(), 5u);
  EXPECT_EQ(rows[0]["rehearsed"], true);
  EXPECT_EQ(rows[0]["prices"], "in-proportion") << "no other is clearly better";
  EXPECT_EQ(rows[1]["rehearsed"], false);
  EXPECT_EQ(rows[3]["prices"], "fairer-to-gpus");
  EXPECT_EQ(rows[4]["prices"], nullptr);
  EXPECT_EQ(rows[4]["seeds"], 2);
}

TEST(Placement, SeedsThatWereNotFinishedAreLeftOut) {
  JobList list;
  list.jobs = {Timed(500, 0, 1)};
  const PlacementOptions options{{Policy::kBestFit, Policy::kRandom}, Objective::kFragmentation, 3};
  int asked = 0;
  const auto runs = RunPlacement(TwoNodes(), list, options, {}, [&] { return ++asked == 4; });
  EXPECT_EQ(runs.size(), 2u) << "the second seed had one of two policies";
  EXPECT_EQ(PlacementDocument("l", runs).Json()["rounds"], 1);
}

PlacementRun RunAt(Policy policy, double at_130, PlacementBound bound) {
  PlacementRun run;
  run.policy = policy;
  run.at_130 = at_130;
  run.bound = bound;
  run.rehearsed = policy == Policy::kSpillway;
  return run;
}

TEST(Placement, TheGapSaysFromWhichFgdItBegins) {
  const std::vector<PlacementRun> runs = {RunAt(Policy::kSpillway, 95, {98, 96}),
                                          RunAt(Policy::kFgd, 94, {98, 96})};
  const report::Document ours = PlacementDocument("l", runs);
  EXPECT_EQ(ours.Json()["ratios"]["gap_from_our_fgd_to_bound_closed_pct"], 25.0);
  EXPECT_EQ(ours.Json()["ratios"]["gap_from_our_fgd_to_willing_bound_closed_pct"], 50.0);
  EXPECT_FALSE(ours.Json()["ratios"].contains("gap_to_bound_closed_pct"));
  EXPECT_THAT(PlacementText(ours), HasSubstr("25 % of the gap from our FGD to bound\n"));
  const report::Document published = PlacementDocument("l", runs, {{Policy::kFgd, {92, 93, 0, 0, 10}}});
  EXPECT_EQ(published.Json()["ratios"]["gap_to_bound_closed_pct"], 40.0);
  EXPECT_FALSE(published.Json()["ratios"].contains("gap_from_our_fgd_to_bound_closed_pct"));
  EXPECT_THAT(PlacementText(published), HasSubstr("40 % of the gap from FGD, as published, to bound\n"));
}

TEST(Placement, WhereNoBoundWasSoughtNoneIsSaid) {
  std::vector<PlacementRun> runs = {RunAt(Policy::kSpillway, 95, {}), RunAt(Policy::kFgd, 94, {})};
  for (PlacementRun& run : runs) run.bound.reset();
  const report::Document document = PlacementDocument("l", runs);
  EXPECT_EQ(document.rows()[0]["bound_pct"], nullptr);
  EXPECT_EQ(document.Json()["ratios"].size(), 2u) << "points over our FGD";
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
  const report::Document document = PlacementDocument("halves", runs);
  EXPECT_EQ(document.rows()[0]["policy"], "spillway");
  EXPECT_EQ(document.rows()[0]["alloc_pct_at_130"], 100.0);
}

}  // namespace
}  // namespace spillway::scheduler

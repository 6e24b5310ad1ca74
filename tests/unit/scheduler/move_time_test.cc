// SPDX-License-Identifier: Apache-2.0
// GPU-hours where moves take time and GPUs differ in speed, on lists small enough to be worked out by hand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "scheduler/replay/reports.h"

namespace spillway::scheduler {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr double kHour = 3600;

TraceJob PartFor(int milli, double from_h, double to_h, ModelSet models = 0) {
  TraceJob one;
  one.job.milli = milli;
  one.job.models = models;
  one.arrives_s = static_cast<int64_t>(from_h * kHour);
  one.leaves_s = static_cast<int64_t>(to_h * kHour);
  return one;
}

TraceJob WholeFor(int gpus, double from_h, double to_h, ModelSet models = 0) {
  TraceJob one = PartFor(kWholeGpu, from_h, to_h, models);
  one.job.gpus = gpus;
  return one;
}

// 400 goes to 600, as the fullest that has room; once that has gone, to 500.
JobList HalvesUntil(double last_leaves_h = 10) {
  JobList list;
  list.jobs = {PartFor(500, 0, 10), PartFor(600, 1, 3), PartFor(400, 2, last_leaves_h)};
  return list;
}

GpuHoursOptions MovesTake(double seconds) {
  GpuHoursOptions options;
  options.moves.move_seconds = seconds;
  return options;
}

TEST(MoveTime, AJobThatMovesHasBothPlacesUntilItIsOver) {
  const GpuHoursRun run = RunGpuHours(HalvesUntil(), SharePolicy::kSpillway, MovesTake(0.5 * kHour));
  EXPECT_DOUBLE_EQ(run.gpu_hours, 10 + 2.5) << "the GPU that 600 leaves at 3 is on until 400 has gone at 3.5";
  EXPECT_EQ(run.migrations, 1);
  EXPECT_EQ(run.moves, 1);
  EXPECT_DOUBLE_EQ(run.move_gpu_hours, 0.5) << "for a place that is drained, alone";
  EXPECT_DOUBLE_EQ(run.held_twice_gpu_hours, 0.5 * 0.4);
  EXPECT_EQ(run.peak_gpus, 2);
}

TEST(MoveTime, AtOnceItCostsNothing) {
  const GpuHoursRun run = RunGpuHours(HalvesUntil(), SharePolicy::kSpillway, MovesTake(0));
  EXPECT_DOUBLE_EQ(run.gpu_hours, 10 + 2);
  EXPECT_EQ(run.moves, 1);
  EXPECT_EQ(run.move_gpu_hours, 0);
  EXPECT_EQ(run.held_twice_gpu_hours, 0);
}

// 400 has been there for an hour, and so is taken to stay for one. To leave saves that hour but for the move.
TEST(MoveTime, AMoveIsMadeOnlyIfItPaysBack) {
  // 2,500 of 3,600 s, 40 % of which are held twice: 100 s are saved.
  EXPECT_EQ(RunGpuHours(HalvesUntil(), SharePolicy::kSpillway, MovesTake(2500)).migrations, 1);
  // 2,600 s: 1,000 s less on, 1,040 held twice.
  const GpuHoursRun run = RunGpuHours(HalvesUntil(), SharePolicy::kSpillway, MovesTake(2600));
  EXPECT_EQ(run.migrations, 0);
  EXPECT_DOUBLE_EQ(run.gpu_hours, 10 + 9);
}

TEST(MoveTime, AJobThatEndsInTheMiddleGivesBothPlacesBack) {
  const GpuHoursRun run = RunGpuHours(HalvesUntil(3.25), SharePolicy::kSpillway, MovesTake(0.5 * kHour));
  EXPECT_DOUBLE_EQ(run.gpu_hours, 10 + 2.25);
  EXPECT_EQ(run.migrations, 1);
  EXPECT_EQ(run.moves, 0) << "none was over before its job";
  EXPECT_DOUBLE_EQ(run.move_gpu_hours, 0.25);
  EXPECT_DOUBLE_EQ(run.held_twice_gpu_hours, 0.25 * 0.4);
}

// At 3 400 begins to leave its GPU; 600 comes at 3.2, and nothing that stays on has room.
TEST(MoveTime, ANewJobKeepsAGpuOnThatWasGoingOff) {
  JobList list = HalvesUntil();
  list.jobs.push_back(PartFor(600, 3.2, 5));
  const GpuHoursRun run = RunGpuHours(list, SharePolicy::kSpillway, MovesTake(0.5 * kHour));
  EXPECT_EQ(run.peak_gpus, 2);
  EXPECT_DOUBLE_EQ(run.gpu_hours, 10 + 4) << "from 1 to 5";
  EXPECT_DOUBLE_EQ(run.move_gpu_hours, 0.2) << "until it came";
}

// 700 and 300 share a GPU, 400 has its own; 700 and 400 end together, and in between 300 and 400 could meet.
TEST(MoveTime, OfJobsThatEndTogetherNoneIsMovedInBetween) {
  JobList list;
  list.jobs = {PartFor(700, 0, 5), PartFor(400, 0, 5), PartFor(300, 0, 10)};
  EXPECT_EQ(RunGpuHours(list, SharePolicy::kSpillway, MovesTake(60)).migrations, 0);
  EXPECT_EQ(RunGpuHours(list, SharePolicy::kSpillway, MovesTake(0)).migrations, 1) << "as it always was";
}

TEST(MoveTime, TheReportSaysWhatItCost) {
  const GpuHoursOptions options = MovesTake(0.5 * kHour);
  const std::vector<GpuHoursRun> runs = {RunGpuHours(HalvesUntil(), SharePolicy::kSpillway, options)};
  const report::Document document = GpuHoursDocument("halves", runs, options);
  const auto& row = document.rows()[0];
  EXPECT_EQ(row["move_s"], 1800);
  EXPECT_EQ(row["moves"], 1);
  EXPECT_EQ(row["migrations"], 1);
  EXPECT_DOUBLE_EQ(row["move_gpu_hours"].get<double>(), 0.5);
  EXPECT_DOUBLE_EQ(row["held_twice_gpu_hours"].get<double>(), 0.2);
  const std::string text = GpuHoursText(document);
  EXPECT_LE(text.substr(0, text.find('\n')).size(), 100u) << "a terminal's width, what moves cost in --json";
  EXPECT_THAT(GpuHoursText(document), ::testing::Not(HasSubstr("dropped"))) << "nothing was";
}

class TimedMoves : public ::testing::Test {
 protected:
  static Job Part(int milli, double move_cost = 1) {
    Job job;
    job.milli = milli;
    job.move_cost = move_cost;
    return job;
  }
  static MovePolicy Taking(double seconds) {
    MovePolicy policy;
    policy.move_seconds = seconds;
    return policy;
  }
  Cluster cluster_{std::vector<Node>(4), {{"GPU", 1, true, 0}}};
};

TEST_F(TimedMoves, AJobInTheMiddleOfAMoveIsNotMovedAgain) {
  cluster_.Place(0, Part(500), {0, 0, -1});
  cluster_.Place(1, Part(300), {1, 0, -1});
  cluster_.Place(2, Part(600, 10), {2, 0, -1});  // dear, so that it stays
  Consolidator consolidator(cluster_, Taking(5));
  const auto moves = consolidator.Consolidate();
  ASSERT_THAT(moves, SizeIs(1));
  ASSERT_EQ(moves[0].job, 1u);
  EXPECT_EQ(moves[0].to.node, 2) << "the tightest";
  // Its dear neighbour goes: job 1 alone on its GPU could now go to job 0.
  cluster_.Remove(2);
  EXPECT_THAT(consolidator.Consolidate(), SizeIs(1)) << "job 0 comes to it";
  EXPECT_EQ(cluster_.SpotOf(0).node, 2);
  cluster_.Place(3, Part(900, 10), {3, 0, -1});
  cluster_.Place(4, Part(150, 10), {0, 0, -1});
  cluster_.Remove(0);  // job 1 alone; it could go to job 4, and job 4 is too dear to come to it
  EXPECT_THAT(consolidator.Consolidate(), IsEmpty());
  consolidator.Release(1);
  EXPECT_THAT(consolidator.Consolidate(), SizeIs(1));
}

TEST_F(TimedMoves, NobodyIsPushedAsideForAPlaceThatIsStillTaken) {
  cluster_.Place(0, Part(600, 10), {0, 0, -1});  // dear, so that it stays
  cluster_.Place(1, Part(300), {0, 0, -1});      // would leave for 2
  cluster_.Place(2, Part(400), {1, 0, -1});
  cluster_.Place(3, Part(650), {2, 0, -1});  // with room for 1
  EXPECT_THAT(Consolidator(cluster_, Taking(5)).Consolidate(), IsEmpty());
  EXPECT_THAT(Consolidator(cluster_, Taking(0)).Consolidate(), SizeIs(2));
}

TEST_F(TimedMoves, AGpuThatIsGoingOffIsTakenOnlyWhereOneWouldBeSwitchedOn) {
  cluster_.Place(0, Part(200), {0, 0, -1});
  cluster_.Place(1, Part(700), {2, 0, -1});  // the old place of a job that moves
  Consolidator consolidator(cluster_, Taking(5));
  consolidator.Hold(1, true);
  EXPECT_TRUE(consolidator.GoingOff(2, 0));
  EXPECT_FALSE(consolidator.GoingOff(0, 0));
  std::vector<Move> moves;
  EXPECT_TRUE(consolidator.Arrive(2, Part(300), moves));
  EXPECT_EQ(cluster_.SpotOf(2).node, 0) << "though the other is fuller";
  EXPECT_TRUE(consolidator.Arrive(3, Part(300, 10), moves));
  EXPECT_TRUE(consolidator.Arrive(4, Part(300, 10), moves));
  EXPECT_EQ(cluster_.SpotOf(4).node, 2) << "rather than one that is off";
  EXPECT_FALSE(consolidator.GoingOff(2, 0));
  EXPECT_THAT(moves, IsEmpty());
}

// As the outlook has it, a GPU is on for as long as its longest job stays.
TEST_F(TimedMoves, WhatAMoveSavesEndsWhenEitherGpuWouldHaveGoneOff) {
  cluster_.Place(0, Part(500), {0, 0, -1});
  cluster_.Place(1, Part(400), {1, 0, -1});
  double stays_0 = 100, stays_1 = 3;
  const auto moves = [&] {
    Cluster copy = cluster_;
    Consolidator consolidator(copy, Taking(5));
    consolidator.ForeseeBy([&](JobId id) { return id == 0 ? stays_0 : stays_1; });
    return consolidator.Consolidate().size();
  };
  EXPECT_EQ(moves(), 0u) << "job 1 will have gone before a move is over, whichever moves";
  stays_1 = 6.9;
  EXPECT_EQ(moves(), 0u) << "1.9 s are saved, 2 or 2.5 held twice";
  stays_1 = 7.1;
  EXPECT_EQ(moves(), 1u);
  stays_0 = 3;
  EXPECT_EQ(moves(), 0u) << "neither way";
}

// ---- speeds

constexpr ModelSet kFast = 1, kSlow = 2;

// A GPU of speed 2 and one of speed 1, on nodes of their own.
GpuHoursOptions FastAndSlow() {
  GpuHoursOptions options;
  options.models = {{"fast", 2, true, 0}, {"slow", 1, true, 0}};
  options.nodes.resize(2);
  options.nodes[0].model = 1;  // fastest first, whatever the order
  return options;
}

double HoursOn(std::vector<TraceJob> jobs, const GpuHoursOptions& options,
               SharePolicy policy = SharePolicy::kSpillway) {
  JobList list;
  list.jobs = std::move(jobs);
  return RunGpuHours(list, policy, options).gpu_hours;
}

TEST(Speeds, AJobTakesAsLongAsItsGpuLetsIt) {
  for (const SharePolicy policy : kSharePolicies) {
    EXPECT_DOUBLE_EQ(HoursOn({PartFor(500, 0, 10)}, FastAndSlow(), policy), 5) << ToString(policy);
    EXPECT_DOUBLE_EQ(HoursOn({PartFor(500, 0, 10, kSlow)}, FastAndSlow(), policy), 10) << ToString(policy);
    EXPECT_DOUBLE_EQ(HoursOn({PartFor(500, 0, 10, kFast)}, FastAndSlow(), policy), 10)
        << "that is how long it ran on one as fast; " << ToString(policy);
  }
}

TEST(Speeds, OfTheTraceIsThatOfTheModelsNamedWhereItIsOne) {
  const std::vector<GpuModel> models = {{"fast", 2, true, 0}, {"slow", 1, true, 0}, {"also", 2, true, 0}};
  Job job;
  EXPECT_EQ(SpeedInTrace(job, models), 1) << "it names none";
  job.models = kFast;
  EXPECT_EQ(SpeedInTrace(job, models), 2);
  job.models = kFast | 4;
  EXPECT_EQ(SpeedInTrace(job, models), 2);
  job.models = kFast | kSlow;
  EXPECT_EQ(SpeedInTrace(job, models), 1) << "nobody knows on which it ran";
  job.models = kFast | kAbsentModel;
  EXPECT_EQ(SpeedInTrace(job, models), 1);
}

// 600 and 300 share the fast GPU, 500 is on the slow one. At 5 600 has done its 10 hours of work; 500 has 5
// left and finds room on the fast one.
std::vector<TraceJob> ThreeParts() { return {PartFor(600, 0, 10), PartFor(300, 0, 40), PartFor(500, 0, 10)}; }

TEST(Speeds, AJobThatMovesGoesOnAtTheSpeedOfItsNewGpu) {
  GpuHoursOptions options = FastAndSlow();
  JobList list;
  list.jobs = ThreeParts();
  options.keep_stays = true;
  const GpuHoursRun run = RunGpuHours(list, SharePolicy::kSpillway, options);
  EXPECT_EQ(run.migrations, 1) << "and 300 is not moved to the slow GPU, where it would stay twice as long";
  EXPECT_DOUBLE_EQ(run.gpu_hours, 20 + 5);
  ASSERT_THAT(run.stays, SizeIs(4));
  EXPECT_EQ(run.stays[3].job, 2u);
  EXPECT_DOUBLE_EQ(run.stays[3].to_s, 7.5 * kHour);
}

TEST(Speeds, UntilTheMoveIsOverItWorksWhereItWas) {
  GpuHoursOptions options = FastAndSlow();
  options.moves.move_seconds = kHour;
  options.keep_stays = true;
  JobList list;
  list.jobs = ThreeParts();
  const GpuHoursRun run = RunGpuHours(list, SharePolicy::kSpillway, options);
  EXPECT_DOUBLE_EQ(run.gpu_hours, 20 + 6) << "the slow GPU until 6";
  ASSERT_THAT(run.stays, SizeIs(4));
  EXPECT_DOUBLE_EQ(run.stays[3].from_s, 5 * kHour);
  EXPECT_DOUBLE_EQ(run.stays[3].to_s, 8 * kHour) << "4 hours of work are left at 6";
}

TEST(Speeds, JobsOfWholeGpusNeedIdleOnesOfOneNode) {
  GpuHoursOptions options;
  options.models = {{"GPU", 1, true, 0}};
  options.nodes.resize(2);
  for (Node& node : options.nodes) node.gpus = 2;
  const std::vector<TraceJob> jobs = {PartFor(100, 0, 10), WholeFor(2, 1, 2), WholeFor(2, 1, 3),
                                      WholeFor(1, 2, 4)};
  JobList list;
  list.jobs = jobs;
  for (const SharePolicy policy : kSharePolicies) {
    const GpuHoursRun run = RunGpuHours(list, policy, options);
    EXPECT_EQ(run.dropped, 1) << "the second of two: one GPU is left on one node; " << ToString(policy);
    EXPECT_DOUBLE_EQ(run.gpu_hours, 10 + 2 + 2) << ToString(policy);
  }
  const std::vector<GpuHoursRun> runs = {RunGpuHours(list, SharePolicy::kSpillway, options)};
  EXPECT_THAT(GpuHoursText(GpuHoursDocument("l", runs, options)), HasSubstr("dropped"));
}

// Two of the slow node's GPUs would be fuller, and four fast ones are idle.
TEST(Speeds, JobsOfWholeGpusGoToTheFastest) {
  GpuHoursOptions options = FastAndSlow();
  options.nodes[0].gpus = 2;
  options.nodes[1].gpus = 4;
  for (const SharePolicy policy : kSharePolicies)
    EXPECT_DOUBLE_EQ(HoursOn({WholeFor(2, 0, 10)}, options, policy), 2 * 5) << ToString(policy);
}

// Sixty jobs that come and go, by fixed arithmetic.
JobList Sixty(bool with_whole) {
  JobList list;
  for (int i = 0; i < 60; ++i) {
    TraceJob one;
    one.job.milli = 100 + i * 37 % 17 * 50;
    one.arrives_s = i * 397 % 20'000;
    one.leaves_s = one.arrives_s + 600 + i * 7919 % 9973;
    if (with_whole && i % 11 == 0) one.job.gpus = 2, one.job.milli = kWholeGpu;
    list.jobs.push_back(one);
  }
  return list;
}

// What commit 9401452 said, before moves took time and GPUs had speeds.
TEST(Speeds, WithoutThemAndWithMovesAtOnceFiguresAreWhatTheyWere) {
  const double exact[] = {103.735, 103.735, 79.016, 73.257, 73.419, 66.372, 73.419, 66.409};
  const double compute[] = {103.735, 103.735, 79.016, 81.243, 79.676, 74.802, 79.676, 74.802};
  const int64_t migrations[] = {0, 0, 0, 0, 0, 36, 0, 25};
  size_t at = 0;
  for (const SharePolicy policy : kSharePolicies) {
    GpuHoursOptions options;
    const GpuHoursRun run = RunGpuHours(Sixty(true), policy, options);
    EXPECT_NEAR(run.gpu_hours, exact[at], 5e-4) << ToString(policy);
    EXPECT_EQ(run.migrations, migrations[at]) << ToString(policy);
    options.rule = ShareRule::kCompute;
    EXPECT_NEAR(RunGpuHours(Sixty(true), policy, options).gpu_hours, compute[at], 5e-4) << ToString(policy);
    ++at;
  }
}

TEST(Speeds, AClusterOfOneSpeedIsTheAlikeGpusToTheDigit) {
  for (const double seconds : {0.0, 5.0, 300.0})
    for (const SharePolicy policy : kSharePolicies) {
      // Rounded up to quarters some are whole, and have GPUs beside the alike ones.
      if (policy == SharePolicy::kStaticQuarters) continue;
      GpuHoursOptions alike = MovesTake(seconds);
      alike.cluster_gpus = 60;
      GpuHoursOptions cluster = alike;
      cluster.nodes.resize(60);
      cluster.models = {{"GPU", 1, true, 0}};
      const GpuHoursRun a = RunGpuHours(Sixty(false), policy, alike),
                        b = RunGpuHours(Sixty(false), policy, cluster);
      EXPECT_EQ(a.gpu_hours, b.gpu_hours) << ToString(policy);
      EXPECT_EQ(a.migrations, b.migrations) << ToString(policy);
      EXPECT_EQ(a.curve, b.curve) << ToString(policy);
    }
}

}  // namespace
}  // namespace spillway::scheduler

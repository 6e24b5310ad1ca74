// SPDX-License-Identifier: Apache-2.0
// Jobs that come, wait and leave; room made by moves; what is learnt of the jobs that are there.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "scheduler/look_ahead.h"
#include "scheduler/make_room.h"
#include "scheduler/rehearsal.h"
#include "scheduler/replay/reports.h"

namespace spillway::scheduler {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

Job Part(int milli) {
  Job job;
  job.milli = milli;
  return job;
}

Job Whole(int gpus) {
  Job job;
  job.gpus = gpus;
  return job;
}

NodeList Nodes(int count, int gpus, int cpu_milli = 64'000) {
  NodeList list;
  list.models = {{"T4", 1, false, 0}};
  Node node;
  node.gpus = gpus;
  node.cpu_milli = cpu_milli;
  list.nodes.assign(static_cast<size_t>(count), node);
  return list;
}

ArrivalsRun Replayed(const NodeList& nodes, std::vector<TimedJob> jobs, int moves_per_100 = 0) {
  JobList list;
  for (const TimedJob& one : jobs) list.jobs.push_back({one.job, 0, 1});
  return RunArrivalsOnce(nodes, list, {{}, std::move(jobs)}, {Policy::kBestFit, Demand::kNone, moves_per_100},
                         1);
}

TEST(Arrivals, AJobWaitsUntilItFitsAndOthersPassIt) {
  // One GPU, so nothing of the first fifth is left out but the job at 0: it holds all until 10. The whole one
  // waits from 1 on; the part that leaves at 10 frees it.
  const ArrivalsRun run = Replayed(
      Nodes(1, 1),
      {{Part(600), 0, 10}, {Whole(1), 1, 5}, {Part(400), 2, 4}, {Part(400), 7, 1}, {Part(100), 20, 1}});
  // Delays of those after the first: 9 (1 to 10), 0, 0 and 0.
  EXPECT_DOUBLE_EQ(run.delay_mean_s, 9.0 / 4);
  EXPECT_DOUBLE_EQ(run.delayed_pct, 25);
  // From 1 to 20: 600 for 9 s, 400 for 4 + 1, 1000 for 5.
  EXPECT_NEAR(run.allocated_pct, 100 * (0.6 * 9 + 0.4 * 5 + 5) / 19, 1e-9);
  EXPECT_NEAR(run.waiting_pct, 100.0 * 9 / 19, 1e-9);
}

TEST(Arrivals, WhoStillWaitsAtTheEndCountsWithItsWait) {
  const ArrivalsRun run =
      Replayed(Nodes(1, 1),
               {{Whole(1), 0, 100}, {Whole(1), 1, 5}, {Whole(1), 1, 5}, {Whole(1), 2, 5}, {Whole(1), 11, 5}});
  EXPECT_DOUBLE_EQ(run.delay_mean_s, (10.0 + 10 + 9 + 0) / 4);
  EXPECT_DOUBLE_EQ(run.allocated_pct, 100);
}

TEST(Arrivals, AMoveMakesRoomWithinTheBudget) {
  // Two GPUs with half a job each; the whole one would wait for 98 s.
  const std::vector<TimedJob> jobs = {
      {Part(500), 0, 100}, {Part(400), 0, 1}, {Part(500), 0.5, 100}, {Whole(1), 2, 50}, {Part(100), 60, 1}};
  const ArrivalsRun stays = Replayed(Nodes(2, 1), jobs);
  const ArrivalsRun moves = Replayed(Nodes(2, 1), jobs, 100);
  EXPECT_GE(stays.delay_mean_s, 58.0 / 4);
  EXPECT_DOUBLE_EQ(moves.delay_mean_s, 0);
  EXPECT_DOUBLE_EQ(moves.moves, 20) << "one, of five jobs that came";
  EXPECT_DOUBLE_EQ(Replayed(Nodes(2, 1), jobs, 10).moves, 0) << "a tenth of a move per job: none yet";
}

TEST(Arrivals, JobsAskForTheLoadAndBeginInTheSteadyState) {
  JobList list;
  list.jobs = {{Part(500), 0, 100}, {Whole(1), 0, 10'000}};
  ArrivalsOptions options;
  options.load_pct = 80;
  options.arrivals = 20'000;
  options.longest_s = 1'000;
  const ArrivalsOrder order = DrawArrivals(list, 100'000, options, 1);
  EXPECT_EQ(order.then, DrawArrivals(list, 100'000, options, 1).then);
  double asked = 0, there = 0;
  for (const TimedJob& one : order.then) asked += one.job.TotalMilli() * one.lasts;
  for (const TimedJob& one : order.first) there += one.job.TotalMilli();
  EXPECT_NEAR(asked / order.then.back().arrives, 80'000, 0.03 * 80'000);
  EXPECT_NEAR(there, 80'000, 0.15 * 80'000);
}

TEST(Arrivals, EveryPolicyIsMeasuredAndReported) {
  JobList list;
  for (int i = 0; i < 20; ++i)
    list.jobs.push_back({i % 4 == 0 ? Whole(2) : Part(100 * (1 + i % 9)), 0, 100 + i});
  ArrivalsOptions options;
  options.policies = {std::begin(kPolicies), std::end(kPolicies)};
  options.seeds = 2;
  options.arrivals = 500;
  const auto runs = RunArrivals(Nodes(4, 4), list, options, {}, {});
  ASSERT_THAT(runs, SizeIs(2 * 10 * 2)) << "spillway and fgd with each demand";
  const auto again = RunArrivals(Nodes(4, 4), list, options, {}, {});
  for (size_t i = 0; i < runs.size(); ++i) {
    EXPECT_EQ(runs[i].curve, again[i].curve);
    const ArrivalsContestant& who = runs[i].who;
    EXPECT_GT(runs[i].allocated_pct, 30) << ToString(who.policy);
    EXPECT_LE(runs[i].moves, who.moves_per_100 + 1e-9);
    EXPECT_EQ(runs[i].learnt > 0, who.policy == Policy::kSpillway || who.demand == Demand::kLearnt);
  }
  const report::Document document = ArrivalsDocument("tiny", runs, options);
  ASSERT_THAT(document.rows(), SizeIs(20));
  EXPECT_EQ(document.rows()[0]["policy"], "spillway");
  EXPECT_EQ(document.rows()[0]["seeds"], 2);
  EXPECT_EQ(document.rows()[0]["demand"], "learnt");
  EXPECT_EQ(document.rows()[0]["against"], "fgd, learnt");
  EXPECT_EQ(document.rows()[1]["against"], "fgd, list");
  EXPECT_THAT(ArrivalsText(document), HasSubstr("delay_p99_s"));
  EXPECT_THAT(ArrivalsPage("tiny", runs, document).Render(), HasSubstr("<svg"));
}

TEST(Arrivals, DurationsAreBorrowedFromJobsOfTheSameSort) {
  JobList list, from;
  list.jobs = {{Part(300), 0, 0}, {Whole(8), 0, 0}, {Part(200), 0, 0}};
  from.jobs = {{Part(500), 5, 15}, {Whole(2), 0, 700}, {Part(100), 0, 20}};
  BorrowDurations(list, from);
  EXPECT_TRUE(list.timed);
  EXPECT_EQ(list.jobs[0].leaves_s, 10);
  EXPECT_EQ(list.jobs[1].leaves_s, 700);
  EXPECT_EQ(list.jobs[2].leaves_s, 20);
}

class MakingRoom : public ::testing::Test {
 protected:
  std::vector<Move> Make(Cluster& cluster, const Job& job, int most_moves) {
    const JobMix mix({}, 1);
    Placer placer(cluster, mix, {Policy::kBestFit});
    return MakeRoom(cluster, placer, 99, job, most_moves);
  }
};

TEST_F(MakingRoom, MovesTheFewestAndSmallest) {
  Cluster cluster(Nodes(3, 1).nodes, {{"T4", 1, false, 0}});
  cluster.Place(0, Part(600), {0, 0, -1});
  cluster.Place(1, Part(300), {1, 0, -1});
  cluster.Place(2, Part(500), {2, 0, -1});
  const auto moves = Make(cluster, Whole(1), 2);
  ASSERT_THAT(moves, SizeIs(1));
  EXPECT_EQ(moves[0].job, 1u);
  EXPECT_EQ(cluster.SpotOf(99).node, 1);
  EXPECT_EQ(cluster.Check(), "");
}

TEST_F(MakingRoom, EmptiesANodeForAJobOfSeveralGpus) {
  Cluster cluster(Nodes(2, 4).nodes, {{"T4", 1, false, 0}});
  cluster.Place(0, Whole(1), {0, 0, -1});
  cluster.Place(1, Part(300), {0, 1, -1});
  cluster.Place(2, Whole(2), {1, 0, -1});
  EXPECT_TRUE(Make(cluster, Whole(4), 1).empty()) << "that takes two moves";
  EXPECT_THAT(Make(cluster, Whole(4), 2), SizeIs(2));
  EXPECT_EQ(cluster.SpotOf(99).node, 0);
  EXPECT_EQ(cluster.Check(), "");
}

TEST_F(MakingRoom, ChangesNothingWhereThoseThatWouldLeaveFitNowhere) {
  Cluster cluster(Nodes(2, 2).nodes, {{"T4", 1, false, 0}});
  cluster.Place(0, Part(700), {0, 0, -1});
  cluster.Place(1, Whole(1), {0, 0, -1});
  cluster.Place(2, Part(600), {1, 0, -1});
  cluster.Place(3, Part(600), {1, 1, -1});
  const uint32_t whole = cluster.WholeGpusOf(1);
  EXPECT_TRUE(Make(cluster, Whole(2), 4).empty());
  EXPECT_EQ(cluster.SpotOf(0).gpu, 0);
  EXPECT_EQ(cluster.WholeGpusOf(1), whole);
  EXPECT_FALSE(cluster.Placed(99));
  EXPECT_EQ(cluster.Check(), "");
}

TEST(LookAhead, AKindThatWaitsBecomesDearer) {
  std::vector<Job> running(40, Whole(1)), waiting(20, Whole(4));
  const auto nodes = Nodes(20, 4).nodes;
  const auto price = [&](const LookAhead& look_ahead) {
    const auto& kinds = look_ahead.mix().nearly_all();
    double one = 0, four = 0;
    for (size_t k = 0; k < kinds.size(); ++k) {
      if (kinds[k].cpu_milli != 0) continue;  // of the common sizes
      if (kinds[k].gpus == 1) one = look_ahead.fill().prices()[k];
      if (kinds[k].gpus == 4) four = look_ahead.fill().prices()[k];
    }
    return four / one;
  };
  std::vector<Job> all = running;
  all.insert(all.end(), waiting.begin(), waiting.end());
  EXPECT_NEAR(price(LookAhead(all, {}, nodes, 1)), 4, 0.4);
  EXPECT_NEAR(price(LookAhead(running, waiting, nodes, 1)), 8, 0.8);
}

// A cluster's worth of learning takes a second, for which nobody waits who is to end.
TEST(LookAhead, LearnsNothingMoreOnceItIsToldToStop) {
  std::stop_source stop;
  const std::vector<Job> running(40, Whole(1));
  const auto nodes = Nodes(20, 4).nodes;
  const auto total = [](const LookAhead& look_ahead) {
    double sum = 0;
    for (const double price : look_ahead.fill().prices()) sum += price;
    return sum;
  };
  EXPECT_GT(total(LookAhead(running, {}, nodes, 1, stop.get_token())), 0);
  stop.request_stop();
  EXPECT_EQ(total(LookAhead(running, {}, nodes, 1, stop.get_token())), 0) << "prices of no round";
}

TEST(LookAhead, AClusterOfFewJobsKeepsRoomForCommonSizes) {
  // Only halves came so far. On the first node one GPU is half taken, on the second none.
  const auto nodes = Nodes(2, 2).nodes;
  Cluster cluster(nodes, {{"T4", 1, false, 0}});
  cluster.Place(0, Part(500), {0, 1, -1});
  const LookAhead look_ahead({Part(500)}, {}, nodes, 1);
  Placer placer(cluster, look_ahead.mix(), {}, &look_ahead.fill());
  const auto spot = placer.Decide(Part(500));
  EXPECT_EQ(spot->node, 0);
  EXPECT_EQ(spot->gpu, 1) << "a whole GPU is kept for those that need one";
}

TEST(Placer, ForgetsItsScoresWhenItLearns) {
  auto nodes = Nodes(2, 2, 4'000).nodes;
  nodes[1].cpu_milli = 40'000;
  Job light = Whole(1), heavy = Whole(1);
  light.cpu_milli = 2'000;
  heavy.cpu_milli = 20'000;
  std::swap(nodes[0], nodes[1]);
  Cluster cluster(nodes, {{"T4", 1, false, 0}});
  const JobMix only_light({light}, 1), both({light, heavy}, 1);
  const FillValue light_fill(only_light.nearly_all(), nodes, 1), both_fill(both.nearly_all(), nodes, 1);
  Placer placer(cluster, only_light, {}, &light_fill);
  EXPECT_EQ(placer.Decide(light)->node, 0);
  placer.Learn(both, &both_fill);
  EXPECT_EQ(placer.Decide(light)->node, 1) << "the first has the CPU that heavy jobs need";
}

// Runs of one policy whose allocated % are given seed by seed.
void AddRuns(std::vector<ArrivalsRun>& runs, const ArrivalsContestant& who, std::vector<double> allocated) {
  for (size_t i = 0; i < allocated.size(); ++i) {
    ArrivalsRun run;
    run.who = who;
    run.seed = i + 1;
    run.allocated_pct = allocated[i];
    runs.push_back(run);
  }
}

TEST(Arrivals, PoliciesAreComparedSeedBySeedWithTheFgdThatKnowsAsMuch) {
  std::vector<ArrivalsRun> runs;
  AddRuns(runs, {Policy::kSpillway, Demand::kLearnt, 0}, {95, 91});
  AddRuns(runs, {Policy::kFgd, Demand::kLearnt, 0}, {94, 90});
  AddRuns(runs, {Policy::kFgd, Demand::kList, 0}, {93, 87});
  AddRuns(runs, {Policy::kRandom, Demand::kNone, 0}, {90, 86});
  const report::Document document = ArrivalsDocument("l", runs, {});
  const auto& rows = document.rows();
  EXPECT_EQ(rows[0]["against"], "fgd, learnt");
  EXPECT_EQ(rows[0]["alloc_more_pct"], 1.0);
  EXPECT_EQ(rows[0]["alloc_more_error_pct"], 0.0) << "the seeds differ by far more than the policies do";
  EXPECT_EQ(rows[1]["against"], "fgd, list") << "what learning does";
  EXPECT_EQ(rows[1]["alloc_more_pct"], 2.0);
  EXPECT_EQ(rows[1]["alloc_more_error_pct"], 1.0);
  EXPECT_EQ(rows[2]["against"], nullptr);
  EXPECT_EQ(rows[2]["alloc_more_pct"], nullptr);
  EXPECT_EQ(rows[3]["alloc_more_pct"], -2.0);
}

TEST(Arrivals, SeedsThatWereNotFinishedAreLeftOut) {
  JobList list;
  list.jobs = {{Part(500), 0, 100}};
  ArrivalsOptions options;
  options.policies = {Policy::kBestFit, Policy::kRandom};
  options.moves_per_100 = {0};
  options.arrivals = 100;
  int asked = 0;
  const auto runs = RunArrivals(Nodes(1, 1), list, options, {}, [&] { return ++asked == 4; });
  EXPECT_THAT(runs, SizeIs(2));
  EXPECT_EQ(ArrivalsDocument("l", runs, options).Json()["rounds"], 1);
}

// A job in a million asks for a GPU: for its GPU to be busy a million others must be there.
TEST(Arrivals, JobsThatAreThereAtOnceAreCountedBeforeTheyAreMade) {
  JobList list;
  Job none;
  none.gpus = none.milli = 0;
  list.jobs = {{Whole(1), 0, 1}, {none, 0, 1'000'000}};
  ArrivalsOptions options;
  options.load_pct = 50;
  options.longest_s = 0;
  EXPECT_NEAR(JobsAtOnce(Nodes(2, 4), list, options), 4 * 1'000'001.0, 1);
  list.jobs.pop_back();
  EXPECT_NEAR(JobsAtOnce(Nodes(2, 4), list, options), 4, 1e-9);
  list.jobs = {{none, 0, 10}};
  EXPECT_EQ(JobsAtOnce(Nodes(2, 4), list, options), 0);
}

}  // namespace
}  // namespace spillway::scheduler

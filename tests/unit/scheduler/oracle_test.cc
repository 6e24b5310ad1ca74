// SPDX-License-Identifier: Apache-2.0
// The exact solver's side: snapshots, their program, and the comparison with the heuristic.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "exact_solver.h"
#include "scheduler/oracle/milp.h"
#include "scheduler/replay/sched_report.h"

namespace spillway::scheduler {
namespace {

using ::testing::HasSubstr;

Job PartOf(int milli) {
  Job job;
  job.milli = milli;
  return job;
}

Job WholeGpus(int gpus) {
  Job job;
  job.gpus = gpus;
  return job;
}

// A GPU with eight slices, two with four, a node with two that MIG does not divide.
constexpr ModelSet kLarge = 1, kHalf = 2, kUndivided = 4;
Snapshot UnlikeGpus(Isolation isolation = Isolation::kNone) {
  Snapshot snapshot;
  snapshot.models = {{"large", 1, true, 0}, {"half", 1, true, 0}, {"undivided", 1, false, 0}};
  snapshot.models[1].slices = 4;
  snapshot.rules.isolation = isolation;
  snapshot.nodes.resize(4);
  snapshot.nodes[1].model = snapshot.nodes[2].model = 1;
  snapshot.nodes[3].model = 2;
  snapshot.nodes[3].gpus = 2;
  return snapshot;
}

void AddJob(Snapshot& snapshot, const Job& job, const Spot& home) {
  snapshot.jobs.push_back(job);
  snapshot.homes.push_back(home);
}

TEST(Snapshots, AreTheSameForTheSameSeedAndKeepTheRules) {
  for (const Isolation level : {Isolation::kNone, Isolation::kFraction, Isolation::kGpu})
    for (uint64_t seed = 1; seed <= 20; ++seed)
      for (const bool unlike : {false, true}) {
        const Snapshot snapshot = DrawSnapshot(seed, level, 15, unlike);
        EXPECT_LE(snapshot.jobs.size(), 15u);
        EXPECT_EQ(WriteMilp(snapshot), WriteMilp(DrawSnapshot(seed, level, 15, unlike)));
        const Answer answer = AnswerOnline(snapshot);
        EXPECT_EQ(answer.feasible, !answer.spots.empty()) << ToString(level) << " seed " << seed;
        EXPECT_TRUE(answer.feasible || unlike) << ToString(level) << " seed " << seed;
      }
}

TEST(Snapshots, JudgeCountsGpusAndMovesAndRefusesWhatDoesNotFit) {
  Snapshot snapshot;
  snapshot.nodes = AlikeGpus(3);
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
                                    return Result<CbcSolution>(CbcSolution{true, true, 1, {}});
                                  },
                                  {}, {});
  ASSERT_TRUE(wrong);
  EXPECT_FALSE((*wrong)[0].Same()) << "an optimum of 1 is less than any GPU costs";
  EXPECT_THAT(CheckText(*wrong), HasSubstr("Every gap:"));
  const auto absurd = CheckOptimal(options,
                                   [](const std::string&) {
                                     return Result<CbcSolution>(CbcSolution{true, true, 1e9, {}});
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
        if (++asked == 1) return CbcSolution{true, true, 1, {}};
        interrupted = true;
        return Fail(ErrorCode::kSystem, "stopped");
      },
      {}, [&] { return interrupted; });
  ASSERT_TRUE(checked) << checked.error().message;
  EXPECT_EQ(checked->size(), 1u);
  EXPECT_EQ(asked, 2);
}

TEST_F(Exact, NoPlacementIsAnAnswer) {
  const auto none = SolveWithCbc("Minimize\n obj: x\nSubject To\n c: x >= 2\nBinary\n x\nEnd\n", 10);
  ASSERT_TRUE(none) << none.error().message;
  EXPECT_FALSE(none->feasible);
}

TEST_F(Exact, ItsPlacementKeepsOurRulesAndCostsWhatItSays) {
  for (const Isolation level : {Isolation::kNone, Isolation::kFraction, Isolation::kGpu})
    for (uint64_t seed = 1; seed <= 6; ++seed) {
      const Snapshot snapshot = DrawSnapshot(seed, level, 9, seed > 3);
      const auto solved = SolveWithCbc(WriteMilp(snapshot), 60);
      ASSERT_TRUE(solved) << solved.error().message;
      ASSERT_TRUE(solved->in_time);
      const Answer ours = AnswerOnline(snapshot);
      if (!solved->feasible) {
        EXPECT_TRUE(ours.spots.empty()) << ToString(level) << " seed " << seed;
        continue;
      }
      const auto spots = ReadPlacement(snapshot, solved->ones);
      ASSERT_TRUE(spots);
      const Answer judged = Judge(snapshot, *spots);
      EXPECT_TRUE(judged.feasible) << ToString(level) << " seed " << seed;
      EXPECT_NEAR(judged.objective, solved->objective, 1e-6);
      if (!ours.spots.empty()) {
        EXPECT_GE(ours.objective, solved->objective - 1e-6);
      }
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

// ---- unlike GPUs and whole ones

// What the cheapest placement costs, by trying all; infinity: there is none.
double CheapestOfAll(const Snapshot& snapshot, std::vector<Spot> spots = {}) {
  constexpr double kNone = std::numeric_limits<double>::infinity();
  if (spots.size() == snapshot.jobs.size()) {
    const Answer answer = Judge(snapshot, spots);
    return answer.feasible ? answer.objective : kNone;
  }
  const Job& job = snapshot.jobs[spots.size()];
  double best = kNone;
  const auto with = [&](const Spot& spot) {
    spots.push_back(spot);
    best = std::min(best, CheapestOfAll(snapshot, spots));
    spots.pop_back();
  };
  for (int n = 0; n < static_cast<int>(snapshot.nodes.size()); ++n) {
    const Node& node = snapshot.nodes[static_cast<size_t>(n)];
    const bool slices = snapshot.rules.isolation == Isolation::kFraction &&
                        snapshot.models[static_cast<size_t>(node.model)].mig;
    if (!job.Fractional())
      for (uint32_t set = 1; set < 1u << node.gpus; ++set) with({n, 0, -1, set});
    for (int gpu = 0; gpu < node.gpus && job.Fractional(); ++gpu) {
      const auto starts =
          slices ? ShapeOf(SliceOf(job, snapshot.rules.slice_rule)).starts : std::vector<int>{-1};
      for (const int start : starts) with({n, gpu, start});
    }
  }
  return best;
}

TEST(UnlikeSnapshots, AGpuHoldsWhatItsModelHas) {
  Snapshot snapshot = UnlikeGpus();
  AddJob(snapshot, PartOf(500), {});
  AddJob(snapshot, PartOf(500), {});
  EXPECT_DOUBLE_EQ(Judge(snapshot, {{0, 0, -1}, {0, 0, -1}}).objective, 10);
  EXPECT_FALSE(Judge(snapshot, {{1, 0, -1}, {1, 0, -1}}).feasible) << "4 of 7 sevenths are 571";
  EXPECT_DOUBLE_EQ(Judge(snapshot, {{1, 0, -1}, {2, 0, -1}}).objective, 20);
  snapshot.rules.isolation = Isolation::kFraction;
  EXPECT_TRUE(Judge(snapshot, {{1, 0, 0}, {2, 0, 0}}).feasible) << "all four slices";
  EXPECT_FALSE(Judge(snapshot, {{3, 0, -1}, {3, 0, -1}}).feasible) << "MIG does not divide it";
  EXPECT_TRUE(Judge(snapshot, {{3, 0, -1}, {3, 1, -1}}).feasible);
  snapshot.jobs[0].models = kLarge;
  EXPECT_FALSE(Judge(snapshot, {{1, 0, 0}, {2, 0, 0}}).feasible) << "a model that it does not accept";
}

TEST(UnlikeSnapshots, WholeGpusAreOfOneNodeAndNobodyElseIsThere) {
  Snapshot snapshot = UnlikeGpus();
  AddJob(snapshot, PartOf(300), {3, 1, -1});
  AddJob(snapshot, WholeGpus(2), {});
  EXPECT_FALSE(Judge(snapshot, {{3, 1, -1}, {3, 0, -1, 3}}).feasible) << "on one of them a part is";
  const Answer moved = Judge(snapshot, {{1, 0, -1}, {3, 0, -1, 3}});
  EXPECT_DOUBLE_EQ(moved.objective, 30 + 1);
  EXPECT_EQ(moved.moves, 1);
  // Ours moves the part for it. Where it may not, nobody finds a place.
  EXPECT_DOUBLE_EQ(AnswerOnline(snapshot).objective, 31);
  snapshot.jobs[0].models = kUndivided;
  EXPECT_TRUE(AnswerOnline(snapshot).spots.empty());
  EXPECT_EQ(CheapestOfAll(snapshot), std::numeric_limits<double>::infinity());
}

TEST(UnlikeSnapshots, TheProgramHasAVariableOnlyWhereAJobCanBe) {
  Snapshot snapshot = UnlikeGpus();
  AddJob(snapshot, PartOf(600), {0, 0, -1});
  AddJob(snapshot, WholeGpus(2), {});
  const std::string lp = WriteMilp(snapshot);
  EXPECT_THAT(lp, HasSubstr(" x_0_0_0\n"));
  EXPECT_THAT(lp, ::testing::Not(HasSubstr("x_0_1_"))) << "600 of 571";
  EXPECT_THAT(lp, HasSubstr("g_1_3 + g_1_4 - 2 z_1_3 = 0"));
  EXPECT_THAT(lp, ::testing::Not(HasSubstr("g_1_0"))) << "a node of one GPU";
  EXPECT_THAT(lp, HasSubstr("g_1_4 + y_4_0 - Y4 <= 0"));
  EXPECT_THAT(lp, HasSubstr("Y3 - Y4 >= 0")) << "GPUs of a node that are off are on in order";
  EXPECT_THAT(lp, HasSubstr("Y1 - Y2 >= 0")) << "and so are nodes that are alike";
}

TEST_F(Exact, TheOptimumOnUnlikeGpusIsTheCheapestOfAllPlacements) {
  int infeasible = 0, whole = 0;
  for (const Isolation level : {Isolation::kNone, Isolation::kFraction, Isolation::kGpu})
    for (uint64_t seed = 1; seed <= 12; ++seed) {
      const Snapshot snapshot = DrawSnapshot(seed, level, 3, true);
      const auto solved = SolveWithCbc(WriteMilp(snapshot), 60);
      ASSERT_TRUE(solved) << solved.error().message;
      const double cheapest = CheapestOfAll(snapshot);
      for (const Job& job : snapshot.jobs) whole += job.Fractional() ? 0 : 1;
      if (!solved->feasible) {
        ++infeasible;
        EXPECT_EQ(cheapest, std::numeric_limits<double>::infinity()) << ToString(level) << " " << seed;
        continue;
      }
      EXPECT_NEAR(solved->objective, cheapest, 1e-6) << ToString(level) << " seed " << seed;
      const auto spots = ReadPlacement(snapshot, solved->ones);
      ASSERT_TRUE(spots);
      EXPECT_NEAR(Judge(snapshot, *spots).objective, cheapest, 1e-6);
    }
  EXPECT_GT(whole, 5);
  EXPECT_LT(infeasible, 18) << "most have an answer";
}

// ---- what the comparison finds

// Two halves on GPUs of their own, and a third: together they are on two, for a move of 1.
Snapshot TwoHalvesAndAThird() {
  Snapshot snapshot;
  snapshot.nodes = AlikeGpus(4);
  AddJob(snapshot, PartOf(500), {0, 0, -1});
  AddJob(snapshot, PartOf(500), {1, 0, -1});
  AddJob(snapshot, PartOf(700), {});
  return snapshot;
}

TEST_F(Exact, APlantedAnswerThatIsNotTheBestIsFound) {
  const Snapshot snapshot = TwoHalvesAndAThird();
  const auto solved = SolveWithCbc(WriteMilp(snapshot), 60);
  ASSERT_TRUE(solved);
  const CheckedSnapshot good = Compare(snapshot, AnswerOnline(snapshot), *solved);
  EXPECT_TRUE(good.Same());
  EXPECT_EQ(good.optimum_gpus_on, 2);
  EXPECT_EQ(good.optimum_moves, 1);
  const CheckedSnapshot planted =
      Compare(snapshot, Judge(snapshot, {{0, 0, -1}, {1, 0, -1}, {2, 0, -1}}), *solved);
  EXPECT_FALSE(planted.Same());
  EXPECT_EQ(planted.fault, "") << "it breaks no rule";
  EXPECT_NEAR(planted.GapPct(), 100 * (30.0 / 21 - 1), 1e-6);
  const CheckedSnapshot broken =
      Compare(snapshot, Judge(snapshot, {{0, 0, -1}, {0, 0, -1}, {0, 0, -1}}), *solved);
  EXPECT_EQ(broken.fault, "ours breaks a rule");
  const CheckedSnapshot nowhere = Compare(snapshot, {}, *solved);
  EXPECT_FALSE(nowhere.Same()) << "there is a place";
}

TEST(OptimalCheck, WhatIsNotSolvedInTimeIsNotTheSame) {
  CheckOptions options;
  options.levels = {Isolation::kNone};
  options.unlike = {false, true};
  options.snapshots = 3;
  CbcSolution late;
  late.in_time = false;
  const auto checked =
      CheckOptimal(options, [&](const std::string&) { return Result<CbcSolution>(late); }, {}, {});
  ASSERT_TRUE(checked);
  ASSERT_EQ(checked->size(), 6u);
  const report::Document document = CheckDocument(*checked);
  for (const size_t row : {0u, 1u}) {
    EXPECT_EQ(document.rows()[row]["not_in_time"], 3);
    EXPECT_EQ(document.rows()[row]["same_pct"], 0.0);
    EXPECT_EQ(document.rows()[row]["faults"], 0);
  }
  EXPECT_EQ(document.rows()[1]["gpus"], "unlike");
  EXPECT_EQ(document.rows()[2]["kind"], "gap");
  EXPECT_EQ(document.rows()[2]["optimum"], nullptr);
}

}  // namespace
}  // namespace spillway::scheduler

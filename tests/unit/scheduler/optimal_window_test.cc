// SPDX-License-Identifier: Apache-2.0
// The heuristic beside the optimum at instants of a list.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "exact_solver.h"
#include "scheduler/replay/optimal_window.h"

namespace spillway::scheduler {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TraceJob Lasting(int milli, int64_t from_s, int64_t to_s, int gpus = 1) {
  TraceJob one;
  one.job.milli = gpus > 1 ? kWholeGpu : milli;
  one.job.gpus = gpus;
  one.arrives_s = from_s;
  one.leaves_s = to_s;
  return one;
}

WindowOptions Window(int64_t from_s, int64_t to_s, int instants = 20) {
  WindowOptions options;
  options.from_s = from_s;
  options.to_s = to_s;
  options.instants = instants;
  return options;
}

// 600 and 300 meet; when 600 has gone, 500 has come to 300.
JobList FewParts() {
  JobList list;
  list.jobs = {Lasting(600, 0, 50), Lasting(300, 10, 1000), Lasting(1000, 15, 900, 4), Lasting(500, 60, 1000),
               Lasting(400, 70, 1000)};
  return list;
}

TEST(OptimalWindow, TheJobsThatRunAndTheNewOneAreASnapshot) {
  const auto instants = InstantsIn(FewParts(), Window(5, 70));
  ASSERT_TRUE(instants) << instants.error().message;
  ASSERT_EQ(instants->size(), 2u) << "at 10 and 60; a job of whole GPUs is in none of it";
  EXPECT_EQ((*instants)[0].at_s, 10);
  const Snapshot& second = (*instants)[1].snapshot;
  EXPECT_EQ((*instants)[1].at_s, 60);
  ASSERT_EQ(second.jobs.size(), 2u) << "300 is there, 600 has gone, 500 comes";
  EXPECT_EQ(second.jobs[0].milli, 300);
  EXPECT_EQ(second.homes[0].node, 0);
  EXPECT_EQ(second.homes[1].node, -1);
  EXPECT_EQ(second.gpu_value, 1);
  EXPECT_EQ(second.move_price, 0.3);
  EXPECT_EQ(second.nodes.size(), 3u) << "one that is on, two that are off";
}

TEST(OptimalWindow, InstantsAreSpreadOverTheJobsThatCome) {
  JobList list;
  for (int i = 0; i < 10; ++i) list.jobs.push_back(Lasting(100, i * 10, i * 10 + 5));
  const auto instants = InstantsIn(list, Window(0, 1000, 5));
  ASSERT_TRUE(instants);
  std::vector<double> at;
  for (const Instant& one : *instants) at.push_back(one.at_s);
  EXPECT_THAT(at, ElementsAre(10, 30, 50, 70, 90));
}

TEST(OptimalWindow, OnAClusterJobsOfWholeGpusAreInTheSnapshot) {
  WindowOptions options = Window(60, 61);
  options.hours.models = {{"GPU", 1, true, 0}};
  options.hours.nodes.resize(3);
  for (Node& node : options.hours.nodes) node.gpus = 4;
  const auto instants = InstantsIn(FewParts(), options);
  ASSERT_TRUE(instants) << instants.error().message;
  ASSERT_EQ(instants->size(), 1u);
  const Snapshot& snapshot = instants->front().snapshot;
  ASSERT_EQ(snapshot.jobs.size(), 3u);
  EXPECT_EQ(snapshot.jobs[1].gpus, 4);
  EXPECT_EQ(snapshot.homes[1].whole, 0xfu);
  EXPECT_EQ(snapshot.nodes.size(), 3u) << "two with jobs, an idle one";
  EXPECT_TRUE(AnswerOnline(snapshot).feasible);
}

TEST(OptimalWindow, AWindowThatIsTooLargeOrEmptyIsRefusedInALine) {
  JobList list;
  for (int i = 0; i <= kMaxWindowJobs; ++i) list.jobs.push_back(Lasting(100, i, 1000));
  const auto large = InstantsIn(list, Window(0, 1000, 1000));
  ASSERT_FALSE(large);
  EXPECT_EQ(large.error().code, ErrorCode::kBadInput);
  EXPECT_EQ(large.error().message,
            "--window 0..1000: expected at most 60 jobs at an instant, as cbc needs it, got 61 at 60 s");
  EXPECT_TRUE(InstantsIn(list, Window(0, 60, 1000)));
  const auto none = InstantsIn(list, Window(2000, 3000));
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().message,
            "--window 2000..3000: expected a job that shares a GPU to come in it, got none");
}

CheckedInstant InstantAt(double at_s, double ours, int ours_on, double optimum, int optimum_on) {
  CheckedInstant one;
  one.at_s = at_s;
  one.checked.placed = one.checked.solved = one.checked.can_place = true;
  one.checked.ours = ours;
  one.checked.gpus_on = ours_on;
  one.checked.optimum = optimum;
  one.checked.optimum_gpus_on = optimum_on;
  one.checked.jobs = 7;
  return one;
}

TEST(OptimalWindow, SumsAreOfWhatWasSolvedInTime) {
  std::vector<CheckedInstant> checked = {InstantAt(0, 5, 5, 4, 4), InstantAt(900, 2, 2, 2, 2),
                                         InstantAt(1800, 3, 3, 2.3, 2), InstantAt(2700, 9, 9, 0, 0)};
  checked[3].checked.solved = checked[3].checked.can_place = false;
  const report::Document document = WindowDocument("l", Window(0, 3600), checked);
  ASSERT_EQ(document.rows().size(), 5u);
  const auto& window = document.rows()[4];
  EXPECT_EQ(window["instants"], 4);
  EXPECT_EQ(window["in_time"], 3);
  EXPECT_EQ(window["not_in_time"], 1);
  EXPECT_EQ(window["same"], 1);
  EXPECT_DOUBLE_EQ(window["ours_gpu_hours"].get<double>(), 10 * 0.25);
  EXPECT_DOUBLE_EQ(window["optimum_gpu_hours"].get<double>(), 8 * 0.25);
  EXPECT_DOUBLE_EQ(window["median_gap_pct"].get<double>(), 25);
  EXPECT_DOUBLE_EQ(window["worst_gap_pct"].get<double>(), 30.43);
  EXPECT_DOUBLE_EQ(document.Json()["ratios"]["ours_over_optimum_gpu_hours"].get<double>(), 1.25);
  EXPECT_EQ(document.rows()[3]["gap_pct"], nullptr);
  EXPECT_EQ(document.rows()[3]["in_time"], false);
  EXPECT_THAT(WindowText(document), HasSubstr("not solve in time"));
  const report::Document nothing = WindowDocument("l", Window(0, 3600), {checked[3]});
  EXPECT_EQ(nothing.rows()[1]["worst_gap_pct"], nullptr) << "nothing is known";
}

TEST_F(Exact, AnswersEachInstant) {
  const WindowOptions options = Window(0, 100);
  const auto instants = InstantsIn(FewParts(), options);
  ASSERT_TRUE(instants);
  const auto checked = CheckInstants(*instants, options,
                                     [](const std::string& lp) { return SolveWithCbc(lp, 60); }, 2, {}, {});
  ASSERT_TRUE(checked) << checked.error().message;
  ASSERT_EQ(checked->size(), 4u);
  for (const CheckedInstant& one : *checked) EXPECT_TRUE(one.checked.Same()) << one.at_s;
  EXPECT_EQ(checked->back().checked.gpus_on, 2) << "300, 400 and 500";
}

}  // namespace
}  // namespace spillway::scheduler

// SPDX-License-Identifier: Apache-2.0
#include "sim/sim_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <regex>

#include "rows.h"

namespace spillway::sim {
namespace {

using nlohmann::ordered_json;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

struct Demonstration {
  Scenario scenario = Demo();
  SweepResult sweep = DemoSweep();
  Results results() const { return {scenario, sweep, Judge(scenario, sweep.rows)}; }
  ordered_json Json() const { return ResultDocument(results()).Json(); }
};

TEST(SimDocument, RowsAreFlatAndNamed) {
  Demonstration demo;
  demo.sweep.rows[1].tried = "threshold 1.5";
  const ordered_json json = demo.Json();
  EXPECT_EQ(json["bench"], "sim.demo");
  ASSERT_EQ(json["rows"].size(), 16u);
  EXPECT_EQ(json["rows"][0],
            ordered_json::parse(R"({"app": "dns", "arrivals": "poisson", "reports": "answered",
                "load_pct": 50.0, "policy": "headroom", "p50_ms": 2.25, "p99_ms": 4.5, "p999_ms": 0.0,
                "mean_ms": 0.0, "loss": 0.0, "rps": 500.0, "share_cpu": 0.75, "share_nic": 0.25,
                "tried": null})"));
  EXPECT_EQ(json["rows"][1]["tried"], "threshold 1.5");
}

TEST(SimDocument, TheAxisGoesByItsName) {
  Demonstration demo;
  demo.scenario.axis = {AxisKind::kWork, "work", {50, 80}, 5};
  EXPECT_EQ(demo.Json()["rows"][0]["work"], 50.0);
  demo.scenario.axis = {AxisKind::kRate, "rps", {50, 80}, 0};
  demo.sweep.rows[0].rate_rps = 50;
  EXPECT_EQ(demo.Json()["rows"][0]["rps"], 50.0);
}

TEST(SimDocument, UnitsWithoutACommonNameGoByTheirPlace) {
  Demonstration demo;
  demo.scenario.apps[0].groups.push_back({1, {{"cpu"}, {"gpu", SPW_KIND_GPU}}});
  const ordered_json row = demo.Json()["rows"][0];
  EXPECT_EQ(row["share_cpu"], 0.75);
  EXPECT_EQ(row["share_unit_1"], 0.25);
}

TEST(SimDocument, Ratios) {
  const ordered_json ratios = Demonstration().Json()["ratios"];
  EXPECT_DOUBLE_EQ(ratios["headroom_median_regret"], 1);
  EXPECT_DOUBLE_EQ(ratios["headroom_p95_regret"], 8.4 / 7);
  EXPECT_DOUBLE_EQ(ratios["headroom_worst_regret"], 8.4 / 7);
  EXPECT_EQ(ratios["headroom_points_left_out"], 0);
  EXPECT_DOUBLE_EQ(ratios["headroom_worst_regret_dns"], 8.4 / 7);
  EXPECT_DOUBLE_EQ(ratios["headroom_worst_regret_knn"], 1);
  EXPECT_EQ(ratios["headroom_points_lost_alone"], 0);
  EXPECT_EQ(ratios["headroom_points_kept_alone"], 1);
  EXPECT_DOUBLE_EQ(ratios["headroom_worst_over_bound"], 1.4);
  EXPECT_DOUBLE_EQ(ratios["headroom_share_within_1.10_of_bound"], 0.75);
  EXPECT_EQ(ratios["sustained_load_headroom_dns"], 80);
  EXPECT_EQ(ratios["sustained_load_host-only_knn"], 50);
  EXPECT_EQ(ratios["rows_missing"], 0);
  EXPECT_EQ(ratios["requests_per_cpu_second"], 8000);
}

TEST(SimDocument, SaysOfWhichArrivalsAndReportsWhereThereAreSeveral) {
  Demonstration demo;
  demo.scenario.arrivals.push_back({ArrivalKind::kConstant, "constant", {}});
  const ordered_json ratios = demo.Json()["ratios"];
  EXPECT_TRUE(ratios.contains("sustained_load_wrr_dns_poisson")) << ratios.dump();
  EXPECT_EQ(ratios["rows_missing"], 16);
}

TEST(SimDocument, WithoutHeadroomAndBoundThereIsNothingToCompare) {
  Demonstration demo;
  demo.scenario.policies[0].unit_policy = SPW_UNIT_ECMP;
  const ordered_json ratios = demo.Json()["ratios"];
  for (const auto& [name, value] : ratios.items())
    EXPECT_THAT(name,
                AllOf(Not(HasSubstr("regret")), Not(HasSubstr("within_")), Not(HasSubstr("over_bound"))));
}

TEST(SimText, ATablePerAppThatSaysHowMuchWasLateAndWhatThatIs) {
  EXPECT_THAT(
      ResultText(Demonstration().results()),
      AllOf(HasSubstr(
                "dns: p99 in ms\n"
                "load_pct  headroom  wrr      host-only  bound\n"
                "--------  --------  ---  -------------  -----\n"
                "      50     4.500    5              6  4.400\n"
                "      80     8.400    7  6 (20 % late)      6\n"
                "late: answered after 5 ms, 10 x the unloaded latency of cpu; loss_over_unloaded sets it\n"),
            HasSubstr("knn: p99 in ms\n"), HasSubstr("1100 (1.1 % late)"), Not(HasSubstr(" loss "))));
}

TEST(SimText, WhatIsNotAnsweredIsToldFromWhatIsLate) {
  Demonstration demo;
  RunResult& host_only = demo.sweep.rows[6].result;
  host_only.dropped = 30;  // of 1000, with a loss of 20 %
  EXPECT_THAT(ResultText(demo.results()), HasSubstr("6 (17 % late, 3.0 % unanswered)"));
  host_only.dropped = 200;
  EXPECT_THAT(ResultText(demo.results()), HasSubstr("6 (20 % unanswered)"));
  host_only.loss = 1, host_only.dropped = 1000;
  EXPECT_THAT(ResultText(demo.results()), HasSubstr("7  100 % unanswered"));
}

TEST(SimText, ATableOfManyPoliciesHasTheShortForm) {
  Demonstration demo;
  for (int i = 0; i < 12; i++) {
    demo.scenario.policies.push_back(demo.scenario.policies[1]);
    const std::string name = demo.scenario.policies.back().name = "policy-" + std::to_string(i);
    demo.sweep.rows.push_back(MakeRow("dns", 80, name, 6, 0.2));
  }
  EXPECT_THAT(ResultText(demo.results()), AllOf(HasSubstr("  20 % late      6  20 % late  "),
                                                HasSubstr("sets it; --json has the p99 there\n")));
}

TEST(SimText, TheLimitGrowsWithTheWorkThatIsSwept) {
  Demonstration demo;
  demo.sweep.rows[4].result.limit_ms = 8;
  EXPECT_THAT(ResultText(demo.results()), HasSubstr("late: answered after 5 to 8 ms, 10 x "));
}

TEST(SimText, TheLoadThatEachPolicySustains) {
  Demonstration demo;
  demo.sweep.rows[2].result.loss = 1;  // dns, 50 %, host-only
  EXPECT_THAT(ResultText(demo.results()),
              HasSubstr("load_pct up to which no more than 1 % was late or unanswered; "
                        "beyond it a policy loses\n"
                        "sweep  headroom  wrr  host-only  bound\n"
                        "-----  --------  ---  ---------  -----\n"
                        "dns          80   80       none     80\n"
                        "knn          80   50         50     80\n"));
}

TEST(SimText, FindingsNameThePoint) {
  EXPECT_THAT(
      FindingLines(Demonstration().results()),
      ElementsAre(
          "headroom: regret over all 3 points: median 1.000, p95 1.200, worst 1.200 (8.400 ms; wrr: 7 ms; "
          "dns at "
          "80 % load)",
          "headroom: loses no requests where every other policy loses some: at 1 point, first knn at 80 % "
          "load",
          "headroom: within 1.10 of the bound at 75 % of 4 points, worst 1.400 (8.400 ms; bound: 6 ms; "
          "dns at 80 % load)"));
}

TEST(SimText, TheWorstPointsWithThePolicyThatWinsThere) {
  const std::string text = ResultText(Demonstration().results());
  EXPECT_THAT(text, HasSubstr("headroom: where its p99 is worst beside that of the best other policy\n"));
  EXPECT_THAT(text, HasSubstr("dns at 80 % load  1.200    8.400  wrr "));
  EXPECT_LT(text.find("dns at 80 % load  1.2"), text.find("knn at 50 % load  1.0"));
}

TEST(SimDocument, AppsMayHaveLoadsOfTheirOwn) {
  Demonstration demo;
  demo.scenario.apps[1].own.load_pct = {50, 60, 80};
  EXPECT_EQ(demo.Json()["ratios"]["rows_missing"], 4) << "4 policies at 60 %";
  EXPECT_THAT(ResultText(demo.results()), HasSubstr("knn: p99 in ms\n"));
}

TEST(SimText, TablesOfWhatWasNotReachedAreLeftOut) {
  Demonstration demo;
  demo.sweep.rows.resize(5);
  const std::string text = ResultText(demo.results());
  EXPECT_THAT(text, AllOf(HasSubstr("dns: p99"), Not(HasSubstr("knn"))));
  EXPECT_THAT(text, HasSubstr("      80     8.400    -          -      -\n"));
}

TEST(SimPage, AChartPerAppWhoseLinesEndWhereTheyLose) {
  Demonstration demo;
  demo.scenario.axis.values = {50, 80, 90};
  demo.sweep.rows.push_back(MakeRow("dns", 90, "host-only", 7));
  const Results results = demo.results();
  const std::string html = ResultPage(results, ResultDocument(results)).Render();
  const auto holds = [&](const char* text) { return html.find(text) != html.npos; };
  EXPECT_TRUE(holds("99th percentile of latency: dns"));
  EXPECT_TRUE(holds("99th percentile of latency: knn"));
  EXPECT_TRUE(holds("host-only: 6 ms at 50 %"));
  EXPECT_TRUE(holds("host-only: no value at 80 % of the joint capacity, more than 1 % late or unanswered"));
  EXPECT_FALSE(holds("host-only: 7 ms at 90 %"));
  EXPECT_FALSE(std::regex_search(html, std::regex("(src|href)=\"?https?:"))) << "it must open offline";
}

}  // namespace
}  // namespace spillway::sim

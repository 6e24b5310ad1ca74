// SPDX-License-Identifier: Apache-2.0
#include "lab/experiment/experiment_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace spillway::lab {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

// Five, whose requests take 1 ms in the median and `p99_ms` in the slowest case.
std::vector<Slice> Slices(double p99_ms) {
  Slice slice;
  slice.sample.sent = 100;
  slice.sample.seconds = 2;
  slice.sample.latencies_ms.assign(90, p99_ms / 4);
  slice.sample.latencies_ms.resize(100, p99_ms);
  return std::vector<Slice>(5, slice);
}

Part MakePart(const std::string& app, bool predict) {
  Part part;
  part.spec.name = "e";
  part.spec.app = app;
  part.spec.predict = predict;
  part.spec.testbed.servers = {{"s1", {UnitSpec{}}}};
  part.spec.policies = {{"host-only", SPW_UNIT_HOST_ONLY}, {"mine", SPW_UNIT_HEADROOM}};
  part.spec.load_pct = {50};
  part.spec.rounds = 5;
  part.results.calibration.full_rps = 100;
  if (predict) part.results.calibration.units = {{"s1-cpu", 100, true, std::nullopt}};
  part.results.rows = Summarise({50, 100, 1, {"host-only", "mine"}, {Slices(8), Slices(4)}}, 0, 1);
  if (predict) {
    part.results.rows[0].predicted = Forecast{1, 4, 0};
    part.results.rows[1].predicted = Forecast{2, 5, 0.25};
  }
  part.results.findings = Judge(part.results.rows, "host-only", 1, 0.1);
  return part;
}

TEST(ExperimentReport, RowsCarryThePredictionAndRatiosHowFarItWasOff) {
  const auto json = ResultDocument("e", {MakePart("", true)}).Json();
  const auto& row = json["rows"][1];
  EXPECT_EQ(row["predicted_p50_ms"], 2);
  EXPECT_EQ(row["predicted_p99_ms"], 5);
  EXPECT_EQ(row["predicted_loss"], 0.25);
  EXPECT_FALSE(row.contains("app"));
  EXPECT_EQ(json["ratios"]["host-only_p99_measured_over_predicted"], 2);
  EXPECT_EQ(json["ratios"]["mine_p50_measured_over_predicted"], 0.5);
  EXPECT_EQ(row["p99_measured_over_predicted"], 4.0 / 5);
  EXPECT_EQ(json["ratios"]["predicted_points"], 2);
  EXPECT_EQ(json["ratios"]["predicted_points_p99_within_1.5"], 1) << "not host-only's, 8 ms for 4";
  EXPECT_EQ(json["ratios"]["predicted_pairs"], 1);
  EXPECT_EQ(json["ratios"]["predicted_pairs_in_order"], 0) << "measured 4 below 8 ms, predicted 5 above 4";
  const Part part = MakePart("", true);
  EXPECT_THAT(ResultText({part}), HasSubstr("p99 within a factor of 1.5 at 1 of 2 points"));
  EXPECT_THAT(ResultPage("e", {part}, ResultDocument("e", {part})).Render(), HasSubstr("at 1 of 2 points"));
}

TEST(ExperimentReport, WithoutAPredictionNothingSpeaksOfOne) {
  const std::vector<Part> parts = {MakePart("", false)};
  const auto document = ResultDocument("e", parts);
  EXPECT_THAT(document.Dump(), Not(HasSubstr("predicted")));
  EXPECT_THAT(ResultText(parts), Not(HasSubstr("predicted")));
  EXPECT_THAT(ResultText(parts), Not(HasSubstr("imulated")));
  EXPECT_THAT(ResultPage("e", parts, document).Render(), Not(HasSubstr("mine simulated")));
}

TEST(ExperimentReport, AFiguresRowsAndRatiosSayWhichAppTheyAreOf) {
  const auto json = ResultDocument("fig5", {MakePart("dns", true), MakePart("knn", true)}).Json();
  EXPECT_EQ(json["bench"], "lab.fig5");
  EXPECT_EQ(json["rows"][0]["app"], "dns");
  EXPECT_EQ(json["rows"][3]["app"], "knn");
  EXPECT_TRUE(json["ratios"].contains("knn_capacity_rps"));
  EXPECT_FALSE(json["ratios"].contains("capacity_rps"));
}

TEST(ExperimentReport, ThePageShowsEachAppMeasuredAndSimulated) {
  const std::vector<Part> parts = {MakePart("dns", true), MakePart("knn", true)};
  const std::string page = ResultPage("fig5", parts, ResultDocument("fig5", parts)).Render();
  EXPECT_THAT(page, HasSubstr("dns: 99th percentile of latency"));
  EXPECT_THAT(page, HasSubstr("knn: 99th percentile of latency"));
  EXPECT_THAT(page, HasSubstr("mine simulated"));
}

TEST(ExperimentReport, RowsAndTextCarryTheComparisonWithItsInterval) {
  const Part part = MakePart("", false);
  const auto json = ResultDocument("e", {part}).Json();
  const auto& row = json["rows"][1];
  EXPECT_EQ(row["baseline"], "host-only");
  EXPECT_EQ(row["p99_over_baseline"], 0.5);
  EXPECT_EQ(row["p99_over_baseline_high"], 0.5);
  EXPECT_EQ(row["verdict_on_baseline"], "better");
  EXPECT_EQ(row["best"], "host-only");
  EXPECT_EQ(row["slices"], 5);
  EXPECT_FALSE(json["rows"][0].contains("baseline"));
  EXPECT_EQ(json["rows"][0]["verdict_on_best"], "harmful");
  EXPECT_EQ(json["ratios"]["mine_levels_p99_better"], 1);
  EXPECT_FALSE(json["ratios"].contains("mine_over_host-only_load_before_loss")) << "neither loses at any";
  const std::string text = ResultText({part});
  EXPECT_THAT(text, HasSubstr("0.50 [0.50, 0.50] better"));
  EXPECT_THAT(text, HasSubstr("p99 against host-only: better at 50 %."));
  EXPECT_THAT(text, HasSubstr("mine is nowhere shown to be slower."));
}

TEST(ExperimentReport, TheConclusionSaysWhatIsAnsweredAndWhereItIsSlower) {
  Part part = MakePart("", false);
  part.spec.load_pct = {50, 90};
  part.results.rows[0].answered_pct = 80;  // host-only's
  std::vector<Slice> lossy = Slices(4);
  for (Slice& slice : lossy) slice.sample.latencies_ms.resize(50);
  for (const Row& row : Summarise({90, 100, 1, {"host-only", "mine"}, {Slices(4), lossy}}, 0, 1))
    part.results.rows.push_back(row);
  part.results.findings = Judge(part.results.rows, "host-only", 1, 0.1);
  EXPECT_EQ(
      Conclusion(part.spec, part.results, part.results.findings[1]),
      "mine answers what host-only loses at 50 %; loses what host-only answers at 90 %; is slower at 90 %.");
}

TEST(ExperimentReport, TheConclusionBlamesNoPolicyForWhatTheMachineLost) {
  for (const size_t unlucky : {0, 1}) {  // the baseline, then the other
    Part part = MakePart("", false);
    part.spec.load_pct = {50, 90};
    part.results.rows[unlucky].answered_pct = 98.5;
    for (const Row& row : Summarise({90, 100, 1, {"host-only", "mine"}, {Slices(8), Slices(4)}}, 0, 1))
      part.results.rows.push_back(row);
    part.results.findings = Judge(part.results.rows, "host-only", 1, 0.1);
    ASSERT_THAT(part.results.findings[unlucky].disturbed_pct, ElementsAre(50));
    EXPECT_EQ(Conclusion(part.spec, part.results, part.results.findings[1]),
              "mine is nowhere shown to be slower.");
  }
}

TEST(ExperimentReport, WhatWasInterruptedCountsTheRoundsPlayedAndJudgesNothing) {
  Part part = MakePart("", false);
  part.spec.load_pct = {50, 80, 90};
  part.spec.rounds = 6;
  part.results.interrupted = true;
  const std::vector<Slice> slow(3, Slices(8).front()), quick(3, Slices(4).front());
  part.results.rows = Summarise({50, 100, 1, {"host-only", "mine"}, {slow, quick}}, 0, 1, 3);
  for (Row& row : part.results.rows) row.interrupted = true;
  part.results.findings = Judge(part.results.rows, "host-only", 1, 0.1);
  const std::string text = ResultText({part});
  EXPECT_THAT(text, HasSubstr("Interrupted: 3 of 6 rounds were played at 50 % load, none at 80 %, 90 %;"));
  EXPECT_THAT(text, HasSubstr("0.50 too few slices for a verdict"));
  EXPECT_THAT(text, HasSubstr("p99 against host-only: too few slices for a verdict at 50 %."));
  EXPECT_THAT(text, HasSubstr("mine has too few slices for a comparison of latencies (at least 6)."));
  EXPECT_THAT(text, HasSubstr("Verdicts: none over 3 slices of 1.5 s (seed 1); they take at least 6 slices"));
  EXPECT_THAT(text, HasSubstr("Machine: 6 slices of all policies together;"));
  EXPECT_THAT(text, Not(HasSubstr("no difference")));
  EXPECT_THAT(text, Not(HasSubstr("nowhere")));
  EXPECT_THAT(text, Not(HasSubstr("6 slices of 1.5")));
  const auto document = ResultDocument("e", {part});
  EXPECT_EQ(document.Json()["rounds"], 3);
  EXPECT_EQ(document.Json()["rows"][1]["verdict_on_baseline"], "too few slices for a verdict");
  EXPECT_THAT(HowMeasured(part.spec, part.results), HasSubstr(". 3 slices of 1.5 s of each policy"));
}

TEST(ExperimentReport, AnInterruptedLoadIsNotJudgedWithThoseThatWerePlayed) {
  Part part = MakePart("", false);
  part.spec.load_pct = {50, 80};
  part.results.interrupted = true;
  const std::vector<Slice> few(2, Slices(4).front());
  for (Row& row : Summarise({80, 100, 1, {"host-only", "mine"}, {few, few}}, 0, 1)) {
    row.interrupted = true;
    part.results.rows.push_back(std::move(row));
  }
  part.results.findings = Judge(part.results.rows, "host-only", 1, 0.1);
  const std::string text = ResultText({part});
  EXPECT_THAT(text, HasSubstr("Interrupted: 2 of 5 rounds were played at 80 % load; only rounds"));
  EXPECT_THAT(text, HasSubstr("better at 50 %; too few slices for a verdict at 80 %."));
  EXPECT_THAT(text, HasSubstr("mine is not shown to be slower at 50 %."));
  EXPECT_THAT(text, HasSubstr("over 5 slices (2 at 80 %) of 1.5 s"));
  EXPECT_EQ(ResultDocument("e", {part}).Json()["rounds"], 5);
}

TEST(ExperimentReport, RatesAreThoseOfTheLoadAndSayWhatTheClientSentOfThem) {
  Part part = MakePart("", false);
  part.results.calibration.full_rps = 1134;
  part.results.rows[0].sent_pct = 97.14;
  part.results.rows[1].sent_pct = 98.5;
  const std::string text = ResultText({part});
  EXPECT_THAT(text,
              HasSubstr("host-only: sustains 50 % load, the highest tried (567 requests/s, of which the "
                        "client sent 97.1 %)"));
  EXPECT_THAT(text, HasSubstr("mine: sustains 50 % load, the highest tried (567 requests/s)"));
  EXPECT_THAT(text, HasSubstr("rps: what the client sent;"));
  EXPECT_EQ(ResultDocument("e", {part}).Json()["ratios"]["mine_sustained_rps"], 50) << "as before";
  EXPECT_THAT(ResultPage("e", {part}, ResultDocument("e", {part})).Render(),
              HasSubstr("567 requests/s, of which the client sent 97.1 %"));
}

TEST(ExperimentReport, TheTextSaysHowFarOffTheSimulatorWas) {
  EXPECT_THAT(ResultText({MakePart("dns", true)}),
              HasSubstr("p50 and p99: host-only 2.00 and 2.00, mine 0.50 and 0.80."));
}

TEST(ExperimentReport, RowsOfGrowingRequestsSayHowLargeTheyAre) {
  Part part = MakePart("", false);
  part.spec.grow = ExperimentSpec::Grow::kWork;
  part.spec.load_pct = {25, 50};
  EXPECT_EQ(ResultDocument("e", {part}).Json()["rows"][0]["work"], 2);
}

}  // namespace
}  // namespace spillway::lab

// SPDX-License-Identifier: Apache-2.0
#include "lab/experiment/experiment_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace spillway::lab {
namespace {

using testing::HasSubstr;
using testing::Not;

Part Sample(const std::string& app, bool predict) {
  Part part;
  part.spec.name = "e";
  part.spec.app = app;
  part.spec.predict = predict;
  part.spec.testbed.servers = {{"s1", {UnitSpec{}}}};
  part.spec.policies = {{"host-only", SPW_UNIT_HOST_ONLY}, {"mine", SPW_UNIT_HEADROOM}};
  part.spec.load_pct = {50};
  part.spec.rounds = 1;
  part.results.calibration.joint_rps = 100;
  part.results.calibration.units = {{"s1-cpu", 100, true, std::nullopt}};
  part.results.rows = Summarise({{"host-only", 50, 50, 2, 8, 100}, {"mine", 50, 50, 1, 4, 100}});
  if (predict) {
    part.results.rows[0].predicted = Forecast{1, 4, 0};
    part.results.rows[1].predicted = Forecast{2, 5, 0.25};
  }
  part.results.verdicts = Judge(part.results.rows, 1);
  return part;
}

TEST(ExperimentReport, RowsCarryThePredictionAndRatiosHowFarItWasOff) {
  const auto json = ResultDocument("e", {Sample("", true)}).Json();
  const auto& row = json["rows"][1];
  EXPECT_EQ(row["predicted_p50_ms"], 2);
  EXPECT_EQ(row["predicted_p99_ms"], 5);
  EXPECT_EQ(row["predicted_loss"], 0.25);
  EXPECT_FALSE(row.contains("app"));
  EXPECT_EQ(json["ratios"]["host-only_p99_measured_over_predicted"], 2);
  EXPECT_EQ(json["ratios"]["mine_p50_measured_over_predicted"], 0.5);
}

TEST(ExperimentReport, WithoutAPredictionNothingSpeaksOfOne) {
  const std::vector<Part> parts = {Sample("", false)};
  const auto document = ResultDocument("e", parts);
  EXPECT_THAT(document.Dump(), Not(HasSubstr("predicted")));
  EXPECT_THAT(ResultText(parts), Not(HasSubstr("predicted")));
  EXPECT_THAT(ResultText(parts), Not(HasSubstr("imulated")));
  EXPECT_THAT(ResultPage("e", parts, document).Render(), Not(HasSubstr("mine simulated")));
}

TEST(ExperimentReport, AFiguresRowsAndRatiosSayWhichAppTheyAreOf) {
  const auto json = ResultDocument("fig5", {Sample("dns", true), Sample("knn", true)}).Json();
  EXPECT_EQ(json["bench"], "lab.fig5");
  EXPECT_EQ(json["rows"][0]["app"], "dns");
  EXPECT_EQ(json["rows"][3]["app"], "knn");
  EXPECT_TRUE(json["ratios"].contains("knn_joint_capacity_rps"));
  EXPECT_FALSE(json["ratios"].contains("joint_capacity_rps"));
}

TEST(ExperimentReport, ThePageShowsEachAppMeasuredAndSimulated) {
  const std::vector<Part> parts = {Sample("dns", true), Sample("knn", true)};
  const std::string page = ResultPage("fig5", parts, ResultDocument("fig5", parts)).Render();
  EXPECT_THAT(page, HasSubstr("dns: 99th percentile of latency"));
  EXPECT_THAT(page, HasSubstr("knn: 99th percentile of latency"));
  EXPECT_THAT(page, HasSubstr("mine simulated"));
}

TEST(ExperimentReport, TextComparesHeadroomWithHostOnlyAndTellsTheSimulatorsError) {
  const std::string text = ResultText({Sample("dns", true)});
  EXPECT_THAT(text,
              HasSubstr("mine against host-only, p99: at or below at 50 %; one round, so no noise band."));
  EXPECT_THAT(text, HasSubstr("p50 and p99: host-only 2.00 and 2.00, mine 0.50 and 0.80."));
}

TEST(ExperimentReport, RowsOfGrowingRequestsSayHowLargeTheyAre) {
  Part part = Sample("", false);
  part.spec.grow = ExperimentSpec::Grow::kWork;
  part.spec.load_pct = {25, 50};
  EXPECT_EQ(ResultDocument("e", {part}).Json()["rows"][0]["work"], 2);
}

}  // namespace
}  // namespace spillway::lab

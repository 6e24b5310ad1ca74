// SPDX-License-Identifier: Apache-2.0
// The paper's claims beside what was found: rows, matches and reasons.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "lab/paper/paper_report.h"
#include "sim/scenario/scenario_reader.h"

namespace spillway::lab {
namespace {

using testing::HasSubstr;

PaperPoint Point(const std::string& policy, double x, double mean_ms, double p99_ms, double loss = 0) {
  return {policy, x, mean_ms, mean_ms, p99_ms, loss, 0};
}

PaperCurves Thresholds(const std::string& reading, double at_300, double at_1000, double at_2000) {
  return {reading,
          {Point("p4mite-300", 45, at_300, at_300), Point("p4mite-1000", 45, at_1000, at_1000),
           Point("p4mite-2000", 45, at_2000, at_2000)}};
}

PaperFigures Figures(const std::string& name, std::vector<PaperCurves> readings) {
  PaperFigures figures;
  figures[name].readings = std::move(readings);
  return figures;
}

PaperRow RowOf(const std::string& id, const PaperFigures& simulator, const PaperFigures* lab = nullptr) {
  for (const PaperRow& row : JudgePaper(simulator, lab))
    if (row.id == id) return row;
  ADD_FAILURE() << "no claim " << id;
  return {};
}

TEST(PaperRows, AnOrderThatHoldsIsAMatchWithoutAReason) {
  const PaperRow row = RowOf("4a-order", Figures("4a", {Thresholds("", 300, 700, 800)}));
  EXPECT_EQ(row.simulator.matches, true);
  EXPECT_EQ(row.Matches(), true);
  EXPECT_EQ(row.reason, "");
  EXPECT_FALSE(row.lab.matches) << "left out";
}

TEST(PaperRows, AnOrderThatIsReversedNamesTheReadingWithWhichItHolds) {
  const PaperRow row =
      RowOf("4a-order",
            Figures("4a", {Thresholds("", 900, 700, 800), Thresholds("a quick SmartNIC", 300, 700, 800)}));
  EXPECT_EQ(row.Matches(), false);
  EXPECT_THAT(row.reason, HasSubstr("it holds with a quick SmartNIC"));
}

TEST(PaperRows, OneSideThatContradictsThePaperIsNoMatch) {
  const PaperFigures good = Figures("4a", {Thresholds("", 300, 700, 800)}),
                     bad = Figures("4a", {Thresholds("", 900, 700, 800)});
  const PaperRow row = RowOf("4a-order", good, &bad);
  EXPECT_EQ(row.simulator.matches, true);
  EXPECT_EQ(row.lab.matches, false);
  EXPECT_EQ(row.Matches(), false);
  EXPECT_THAT(row.reason, HasSubstr("lab: "));
}

// P4Mite's loads before loss in DNS beside those of the host: 80 %.
PaperFigures Dns(double p4mite_until) {
  PaperCurves curves;
  for (double load : {50., 80., 90., 97.}) {
    curves.points.push_back(Point("host-only", load, 5, 9, load > 80 ? 0.5 : 0));
    curves.points.push_back(Point("p4mite", load, 5, 9, load > p4mite_until ? 0.5 : 0));
    curves.points.push_back(Point("wrr", load, 5, 9));
    curves.points.push_back(Point("ecmp", load, 5, 9, 0.5));
  }
  return Figures("5a", {curves});
}

TEST(PaperRows, AGainIsComparedByTheLoadBeforeLoss) {
  EXPECT_EQ(RowOf("5a-gain", Dns(97)).Matches(), true);
  const PaperRow none = RowOf("5a-gain", Dns(80));
  EXPECT_EQ(none.Matches(), false);
  EXPECT_THAT(none.simulator.figure, HasSubstr("+0 % (80 against 80 %)"));
  EXPECT_THAT(none.reason, HasSubstr("below the threshold"));
}

TEST(PaperRows, APolicyThatLosesAtEveryLoadSustainsLessThanTheLowest) {
  EXPECT_EQ(RowOf("5a-ecmp", Dns(97)).simulator.figure, "80 % against below 50 %");
}

TEST(PaperRows, TheSwitchsResourcesHaveAReasonAndNoFigure) {
  const PaperFigures none;
  const PaperRow row = RowOf("II-SRAM", none, &none);
  EXPECT_EQ(row.paper, "5.1 %");
  EXPECT_FALSE(row.Matches());
  EXPECT_THAT(row.reason, HasSubstr("Tofino"));
}

TEST(PaperRows, EveryRowMatchesOrSaysWhyNot) {
  const PaperFigures simulator = Dns(80), lab = Dns(97);
  for (const PaperFigures* measured : {static_cast<const PaperFigures*>(nullptr), &lab})
    for (const PaperRow& row : JudgePaper(simulator, measured))
      EXPECT_TRUE(row.Matches() == true || !row.reason.empty()) << row.id;
}

TEST(PaperRows, LatenciesOfUnitsThatAreNotThePapersAreShownButNotCompared) {
  const PaperFigures simulator = Dns(97);
  PaperFigures lab = Dns(97);
  lab["5a"].latencies_comparable = false;
  const PaperRow row = RowOf("5a-alone", simulator, &lab);
  EXPECT_EQ(row.lab.figure, "5 ms");
  EXPECT_FALSE(row.lab.matches);
  EXPECT_THAT(row.reason, HasSubstr("not its latencies"));
}

TEST(PaperRows, LossBeyondTheLargestRequestsThatWereSentIsUnknown) {
  const PaperFigures until_10 =
      Figures("4b", {{"", {Point("host-only", 2, 220, 230), Point("host-only", 10, 1100, 1200)}}});
  const PaperRow row = RowOf("4b-host", until_10);
  EXPECT_EQ(row.simulator.figure, "not up to 10 Gflop");
  EXPECT_FALSE(row.Matches());
}

TEST(PaperReport, CountsAndNamesWhatWasLeftOut) {
  const auto rows = JudgePaper(Dns(80), nullptr);
  EXPECT_THAT(PaperText(rows, false), HasSubstr("The lab was left out (--sim-only)"));
  const auto json = PaperDocument(rows, 3).Json();
  EXPECT_EQ(json["ratios"]["claims"], rows.size());
  EXPECT_EQ(json["ratios"]["lab_compared"], 0);
  EXPECT_GT(json["ratios"]["simulator_compared"], json["ratios"]["simulator_matched"]);
  for (const auto& row : json["rows"])
    if (row["id"] == "5a-gain") {
      EXPECT_EQ(row["match"], false);
      EXPECT_TRUE(row["lab"].is_null());
    }
}

nlohmann::json LabDocument() {
  return nlohmann::json::parse(R"({"rows": [
      {"app": "synthetic", "policy": "p4mite-300", "load_pct": 83, "p50_ms": 25, "p99_ms": 40, "answered_pct": 98}],
      "ratios": {"synthetic_s1-cpu_capacity_rps": 455, "synthetic_s1-nic_capacity_rps": 88}})");
}

TEST(LabDocuments, EmulatedUnitsAreReadInThePapersTimes) {
  PaperFigures figures;
  AddLabDocument("fig4a", LabDocument(), true, figures);
  const PaperPoint& point = figures.at("4a").readings.at(0).points.at(0);
  EXPECT_NEAR(point.x, 45, 0.1) << "83 % of 54.3 requests/s";
  EXPECT_EQ(point.p99_ms, 400) << "times are divided by 10 there";
  EXPECT_NEAR(point.loss, 0.02, 1e-9);
  EXPECT_NEAR(figures.at("4a").nic_share, 0.193, 0.001);
  EXPECT_TRUE(figures.at("4a").latencies_comparable);
}

TEST(LabDocuments, RealUnitsHaveTheirOwnTimes) {
  PaperFigures figures;
  AddLabDocument("fig4a", LabDocument(), false, figures);
  EXPECT_EQ(figures.at("4a").readings.at(0).points.at(0).p99_ms, 40);
  EXPECT_FALSE(figures.at("4a").latencies_comparable);
}

TEST(PaperScenarios, DrawEachFigureWithThePapersPoliciesOnly) {
  for (const PaperScenario& one : PaperScenarios()) {
    auto scenario = sim::LoadScenario(std::string(SPILLWAY_LAB_EXAMPLES) + "/../sim/" + one.file);
    ASSERT_TRUE(scenario) << scenario.error().message;
    scenario->axis.values = {scenario->axis.values.front()};
    const PaperCurves curves = SimulateAsPublished(*scenario, one, 1, [] { return false; });
    EXPECT_EQ(curves.reading, one.reading);
    EXPECT_GE(curves.points.size(), 2u) << one.file << " " << one.app;
    EXPECT_TRUE(curves.Of("headroom").empty());
    if (one.figure == "4a") {
      EXPECT_EQ(curves.Of("p4mite-1000").size(), 1u);
    }
    if (one.figure == "5b") {
      EXPECT_EQ(curves.Of("p4mite").size(), 1u) << "with its second report only";
    }
  }
}

}  // namespace
}  // namespace spillway::lab

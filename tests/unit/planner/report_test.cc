// SPDX-License-Identifier: Apache-2.0
// Answers as people and programs read them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "planner/check/rehearsal_report.h"
#include "planner/compare_report.h"
#include "planner/explain_report.h"
#include "planner/paper_report.h"
#include "planner/search_report.h"
#include "text.h"

namespace spillway::planner {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

TEST(CompareReport, ShowsCostEnergyAndSlowdownOverPhiOffline) {
  const PlanInput input = Example("bigquery");
  const auto all = Compare(ClusterModel(input), 8);
  const report::Document document = CompareDocument(input, all);
  EXPECT_EQ(document.rows().size(), 8u);
  EXPECT_NEAR(document.rows()[1]["slowdown"].get<double>(), 1.2215, 1e-9);
  const std::string page = ComparePage(input, all, document).Render();
  EXPECT_THAT(page, AllOf(HasSubstr("Cost: traditional cluster"), HasSubstr("Energy: traditional cluster"),
                          HasSubstr("Slowdown: SmartNICs over"), HasSubstr("<svg")));
  EXPECT_THAT(page, AllOf(Not(HasSubstr("src=\"http")), Not(HasSubstr("href=\"http")))) << "loads nothing";
  EXPECT_THAT(CompareText(input, all), HasSubstr("  2      1.22  3.50         2.26"));
}

TEST(SearchReport, TellsTheMixTheBindingLimitAndWhatMatters) {
  const PlanInput input = Parse(With(kWorkload, "slowdown: 1.5", "slowdown: 1.6"));
  const ClusterModel model(input);
  Found found{model, Objective::kCost, {}, 0.1, {}, {}, {}, {}};
  Question question;
  question.front = true;
  found.answer = Search(model, question);
  ASSERT_TRUE(found.answer.best);
  found.binding = FindBinding(model, found.objective, *found.answer.best);
  found.influences = FindInfluences(input, found.objective, *found.answer.best);
  const std::string text = SearchText(found);
  EXPECT_THAT(text, AllOf(HasSubstr("x ipu-e2000 (lite-compute)"), HasSubstr("binding: slowdown"),
                          HasSubstr("front of cost against slowdown"), HasSubstr("limit of slowdown")));
  const report::Document document = SearchDocument(found);
  EXPECT_EQ(document.rows()[0]["kind"], "baseline");
  EXPECT_EQ(document.rows()[1]["kind"], "best");
  EXPECT_EQ(document.Json()["ratios"]["feasible"], 1);
  EXPECT_THAT(SearchPage(found, document).Render(), HasSubstr("What speed costs"));
}

TEST(SearchReport, NamesWhatCannotBeMetAndByHowMuch) {
  const PlanInput input = Parse(With(kWorkload, "slowdown: 1.5", "slowdown: 0.05"));
  const ClusterModel model(input);
  Found found{model, Objective::kCost, Search(model, {}), 0, {}, {}, FindObstacles(model, Objective::kCost),
              {}};
  EXPECT_THAT(SearchText(found),
              AllOf(HasSubstr("no candidate meets every limit"), HasSubstr("slowdown cannot be met"),
                    HasSubstr("where at most 0.05"), HasSubstr("% over")));
  const auto rows = SearchDocument(found).rows();
  EXPECT_EQ(rows.back()["kind"], "infeasible");
  EXPECT_EQ(rows.back()["limit"], "slowdown");
  EXPECT_EQ(rows.back()["allowed"], 0.05);
}

TEST(SearchReport, NamesTheKindOfNodeForWhichThereIsNoCandidate) {
  PlanInput input = Parse(kWorkload);
  for (Node& node : input.catalogue.nodes) node.serves.fill(false);
  ClusterModel none(input);
  Found found{none, Objective::kCost, Search(none, {}), 0, {}, {}, {}, {}};
  EXPECT_THAT(SearchText(found), HasSubstr("  no node for lite-compute: of search.nodes (n2d-milan, "
                                           "ipu-e2000) none has it among its kinds\n"));
}

TEST(ExplainReport, TermsSumToTheAnswer) {
  const PlanInput input = Example("llm-training");
  const ClusterModel model(input);
  const Mix mix = ReplaceServers(input.workload, 2);
  double parts = 0, whole = 0;
  for (const auto& row : ExplainRows(model, mix)) {
    if (row["part"] != "time") continue;
    (row["term"] == "slowdown" ? whole : parts) += row["plan"].get<double>();
  }
  EXPECT_NEAR(parts, whole, 1e-12);
  const std::string text = ExplainText(model, mix);
  EXPECT_THAT(
      text, AllOf(HasSubstr("glam-1b"), HasSubstr("accelerators that fit"), HasSubstr("limits of the plan")));
}

TEST(PaperReport, RowsHaveClaimPaperValueMatchReason) {
  const auto rows = RecomputePaper(ShippedCatalogue());
  const report::Document document = PaperDocument(rows);
  ASSERT_EQ(document.rows().size(), rows.size());
  for (const auto& row : document.rows())
    for (const char* key : {"claim", "paper", "value", "match", "reason"})
      EXPECT_TRUE(row.contains(key)) << key;
  EXPECT_THAT(PaperText(rows), HasSubstr("rows match to the printed digits"));
}

TEST(RehearsalReport, ShowsPlannedBesideSimulated) {
  Rehearsal rehearsal;
  rehearsal.planned_slowdown = 1.2;
  rehearsal.simulated_slowdown = {{"p2c", 1.26}};
  rehearsal.rows = {{"plan", "p2c", 100, 200, 190, 0.5, 0.53, 10, 11, 20, 0}};
  const PlanInput input = Parse(kWorkload);
  EXPECT_THAT(RehearsalText(input, input.workload.baseline, rehearsal),
              HasSubstr("slowdown: planned 1.200, simulated with p2c 1.260 (+5.0 %)"));
  EXPECT_EQ(RehearsalDocument(input, rehearsal).Json()["ratios"]["simulated_slowdown_p2c"], 1.26);
}

}  // namespace
}  // namespace spillway::planner

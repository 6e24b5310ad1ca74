// SPDX-License-Identifier: Apache-2.0
// Answers as people and programs read them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

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

Found Answered(const ClusterModel& model, Objective objective) {
  return Inquire(model, objective, false, {}, [] { return 0.0; });
}

// The lines of the front's table, its heading first.
std::vector<std::string> FrontLines(const std::string& text) {
  std::vector<std::string> lines;
  const size_t begin = text.find("\nfront of ");
  std::istringstream in(begin == text.npos ? "" : text.substr(begin + 1));
  for (std::string line; std::getline(in, line) && !line.empty();) lines.push_back(line);
  return lines;
}

TEST(SearchReport, TheFrontHoldsTheAnswerBetweenItsNeighbours) {
  for (const Objective objective : {Objective::kCost, Objective::kEnergy}) {
    const PlanInput input = Example("bigquery");
    const ClusterModel model(input);
    const Found found = Answered(model, objective);
    ASSERT_GT(found.answer.front.size(), 20u);
    const auto lines = FrontLines(SearchText(found));
    const auto is_answer = [](const std::string& line) { return line.find("the answer") != line.npos; };
    const auto answer = std::find_if(lines.begin(), lines.end(), is_answer);
    ASSERT_NE(answer, lines.end());
    EXPECT_EQ(std::count_if(lines.begin(), lines.end(), is_answer), 1);
    EXPECT_THAT(*answer, HasSubstr(Describe(input.catalogue, found.answer.best->mix)));
    size_t at = 0;
    const Answer& all = found.answer;
    while (all.front[at].objective < all.best->objective * (1 - kRounding)) at++;
    // With energy, others may take as much and be faster, but cost more.
    const size_t next = all.front[at].mix == all.best->mix ? at + 1 : at;
    if (at > 0) {
      EXPECT_THAT(*(answer - 1), HasSubstr(Describe(input.catalogue, all.front[at - 1].mix)));
    }
    EXPECT_THAT(*(answer + 1),
                AllOf(HasSubstr(Describe(input.catalogue, all.front[next].mix)), HasSubstr(" yes ")));
    EXPECT_EQ(lines[1].find("energy / baseline's") != std::string::npos, objective == Objective::kEnergy);
  }
}

TEST(SearchReport, MoneyAndWattsHaveNoExponents) {
  PlanInput input = Parse(kWorkload);
  input.workload.limits.power_w = 20'000;
  const ClusterModel model(input);
  EXPECT_THAT(SearchText(Answered(model, Objective::kCost)), HasSubstr("<= 20000"));
}

TEST(SearchReport, SaysWhichPricesArePlaceholders) {
  PlanInput input = Parse(kWorkload);
  const char* line = "\nprices and power are placeholders of the built-in catalogue (the papers')";
  {
    const ClusterModel model(input);
    EXPECT_THAT(SearchText(Answered(model, Objective::kCost)), HasSubstr(line));
    EXPECT_THAT(SearchPage(Answered(model, Objective::kCost), report::Document("x")).Render(),
                HasSubstr("placeholders"));
  }
  const auto own_price = [&](Node& node) { node.sources["price_usd"] = "quote of March"; };
  for (Node& node : input.catalogue.nodes)
    if (node.name == "ipu-e2000") own_price(node);
  {
    const ClusterModel model(input);
    EXPECT_THAT(SearchText(Answered(model, Objective::kCost)),
                HasSubstr("\nprices and power of n2d-milan are placeholders"));
  }
  for (Node& node : input.catalogue.nodes) own_price(node);
  const ClusterModel own(input);
  EXPECT_THAT(SearchText(Answered(own, Objective::kCost)), Not(HasSubstr("placeholders")));
}

TEST(SearchReport, SaysWhichOptionWouldDo) {
  PlanInput input = Parse(kWorkload);
  const auto text = [&] {
    const ClusterModel model(input);
    return SearchText(Answered(model, Objective::kCost));
  };
  const auto number_after = [](const std::string& whole, const std::string& words) {
    const size_t at = whole.find(words);
    return at == whole.npos ? 0 : std::stod(whole.substr(at + words.size()));
  };
  input.workload.limits.cost_usd = 1000;
  const std::string told = text();
  EXPECT_THAT(told, HasSubstr("  to keep the other limits, raise --"));
  const double cost = number_after(told, "--max-cost to "), slowdown = number_after(told, "--slo to ");
  ASSERT_GT(cost, 1000) << told;
  input.workload.limits.cost_usd = cost;
  EXPECT_THAT(text(), HasSubstr("the answer"));
  input.workload.limits.cost_usd = 1000;
  if (slowdown > 0) {
    input.workload.limits.slowdown = slowdown;
    EXPECT_THAT(text(), HasSubstr("the answer"));
  }
}

TEST(SearchReport, SaysWhichOptionsWouldDoTogether) {
  PlanInput input = Parse(kWorkload);
  input.workload.limits.cost_usd = 10;
  input.workload.limits.power_w = 1;
  const ClusterModel model(input);
  EXPECT_THAT(SearchText(Answered(model, Objective::kCost)),
              AllOf(HasSubstr("  for that mix, raise --slo to "), HasSubstr(", and --max-cost to "),
                    HasSubstr(", and --max-power to ")));
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

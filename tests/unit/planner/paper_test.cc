// SPDX-License-Identifier: Apache-2.0
// Every figure of the papers: which match, and what explains those that do not.
#include "planner/paper.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "planner/catalogue_reader.h"

namespace spillway::planner {
namespace {

using testing::HasSubstr;

const PaperRow& Row(const std::vector<PaperRow>& rows, const std::string& claim) {
  for (const PaperRow& row : rows)
    if (row.claim.find(claim) != std::string::npos) return row;
  throw std::logic_error("no row " + claim);
}

TEST(Paper, EveryRowMatchesOrSaysWhyNot) {
  const auto rows = RecomputePaper(ShippedCatalogue());
  std::set<std::string> ids;
  for (const PaperRow& row : rows) {
    ids.insert(row.id);
    EXPECT_TRUE(row.match || !row.reason.empty()) << row.id << " " << row.claim;
  }
  for (const char* id :
       {"L1", "L2", "L3", "L4", "L5", "L6", "L7", "L8", "L9", "L10", "L11", "L12", "L13", "C5", "P7"})
    EXPECT_TRUE(ids.contains(id)) << id;
}

TEST(Paper, TheSplitBehindBigQueryGivesAllThreeFigures) {
  const auto rows = RecomputePaper(ShippedCatalogue());
  EXPECT_TRUE(Row(rows, "mu at phi 2 (").match);
  EXPECT_TRUE(Row(rows, "mu at phi 3 (").match);
  EXPECT_TRUE(Row(rows, "BigQuery, energy at phi 2").match);
  EXPECT_TRUE(Row(rows, "BigQuery, energy at phi 3").match);
  EXPECT_NEAR(Row(rows, "network's share").value, 61, 1e-9);
  EXPECT_THAT(Row(rows, "BigQuery, energy at phi 3").reason, HasSubstr("4.59 and 4.61"));
}

TEST(Paper, MisprintsAreFoundAndExplained) {
  const auto rows = RecomputePaper(ShippedCatalogue());
  std::set<std::string> differ;
  for (const PaperRow& row : rows)
    if (!row.match && row.id != "L8") differ.insert(row.claim);
  EXPECT_FALSE(Row(rows, "power (section 5.3)").match);
  EXPECT_THAT(Row(rows, "power (section 5.3)").reason, HasSubstr("33.6"));
  EXPECT_FALSE(Row(rows, "phi 1, mu 1, PCIe devices (section 5.3)").match);
  EXPECT_THAT(Row(rows, "phi 1, mu 1, PCIe devices (section 5.3)").reason, HasSubstr("1.2982"));
  EXPECT_FALSE(Row(rows, "fabric may be slower").match);
  EXPECT_THAT(Row(rows, "fabric may be slower").reason, HasSubstr("18.0 %"));
  EXPECT_FALSE(Row(rows, "greatest saving of energy").match);
  EXPECT_FALSE(Row(rows, "least saving of capital").match);
  EXPECT_FALSE(Row(rows, "fewer cores, by at most").match);
  EXPECT_FALSE(Row(rows, "fewer cores, by at least").match);
  EXPECT_FALSE(Row(rows, "mini-batches per second").match);
  EXPECT_FALSE(Row(rows, "NIC, at least").match);
  EXPECT_THAT(Row(rows, "all-reduce traffic grows").reason, HasSubstr("2.14 for 8"));
  EXPECT_EQ(differ.size(), 13u) << "a new difference, or one less: look at it";
}

TEST(Paper, AValueMatchesToThePrintedDigits) {
  EXPECT_TRUE(Matches("2.3", 2.3333, Meaning::kEqual));
  EXPECT_FALSE(Matches("2.33", 2.336, Meaning::kEqual));
  EXPECT_TRUE(Matches("3.13", 3.125, Meaning::kEqual)) << "halves round away from zero";
  EXPECT_FALSE(Matches("60", 62.5, Meaning::kEqual));
  EXPECT_TRUE(Matches("60", 62.5, Meaning::kOver));
  EXPECT_FALSE(Matches("60", 60, Meaning::kOver));
  EXPECT_TRUE(Matches("20", 19.3, Meaning::kAtMost));
  EXPECT_FALSE(Matches("20", 20.1, Meaning::kAtMost));
  EXPECT_TRUE(Matches("5.0", 5.0, Meaning::kAtLeast));
  EXPECT_FALSE(Matches("5.0", 4.9, Meaning::kAtLeast));
}

TEST(Paper, TheShortestDecimalOfAnInterval) {
  EXPECT_DOUBLE_EQ(SimplestIn(0.38992, 0.39054), 0.39);
  EXPECT_DOUBLE_EQ(SimplestIn(0.3, 2.5), 1);
  EXPECT_DOUBLE_EQ(SimplestIn(0.123, 0.123), 0.123);
}

TEST(Paper, AnotherCatalogueGivesOtherValues) {
  Catalogue catalogue = ShippedCatalogue();
  for (Node& node : catalogue.nodes)
    if (node.name == "n2d-milan") node.price_usd *= 2;
  EXPECT_FALSE(Row(RecomputePaper(catalogue), "phi 3, no PCIe devices (section 4)").match)
      << "computed, not typed in";
}

}  // namespace
}  // namespace spillway::planner

// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <filesystem>

#include "sim/scenario/scenario_reader.h"

namespace spillway::sim {
namespace {

TEST(SimExamples, AreTakenAsTheyAre) {
  int examples = 0;
  for (const auto& entry : std::filesystem::directory_iterator(SPILLWAY_EXAMPLES "/sim")) {
    if (entry.path().extension() != ".yaml") continue;
    examples++;
    const auto scenario = LoadScenario(entry.path().string());
    ASSERT_TRUE(scenario) << scenario.error().message;
    EXPECT_EQ(scenario->name, entry.path().stem().string());
  }
  EXPECT_GE(examples, 8);
}

TEST(SimExamples, RealUnitsHaveAllTheScenariosOfTheirGroups) {
  const auto scenario = LoadScenario(SPILLWAY_EXAMPLES "/sim/real-units.yaml");
  ASSERT_TRUE(scenario) << scenario.error().message;
  EXPECT_EQ(scenario->apps.size(), 66u);
  size_t points = 0;
  for (const App& app : scenario->apps) {
    points += scenario->ValuesOf(app).size();
    EXPECT_NE(app.name.find('.'), app.name.npos) << "its group";
    for (const Reports& reports : scenario->ReportsOf(app)) EXPECT_TRUE(reports.learned) << app.name;
  }
  EXPECT_EQ(points, 436u);
  for (const PolicyChoice& policy : scenario->policies) {
    EXPECT_FALSE(policy.units_as_servers) << policy.name;
    EXPECT_TRUE(policy.baseline.within_server || !IsBaseline(policy.decider)) << policy.name;
  }
}

}  // namespace
}  // namespace spillway::sim

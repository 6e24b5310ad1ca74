// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <filesystem>

#include "sim/scenario_reader.h"

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
  EXPECT_GE(examples, 6);
}

}  // namespace
}  // namespace spillway::sim

// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <filesystem>

#include "lab/experiment/experiment_spec.h"

namespace spillway::lab {
namespace {

TEST(LabExamples, AreTakenAsTheyAre) {
  int examples = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(SPILLWAY_LAB_EXAMPLES)) {
    if (entry.path().extension() != ".yaml") continue;
    for (bool quick : {false, true}) {
      const auto spec = LoadExperiment(entry.path(), quick);
      EXPECT_TRUE(spec) << spec.error().message;
    }
    examples++;
  }
  EXPECT_GE(examples, 6);
}

}  // namespace
}  // namespace spillway::lab

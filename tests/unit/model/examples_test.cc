// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <filesystem>

#include "model/parse.h"
#include "model/yaml.h"

namespace spillway::model {
namespace {

TEST(Examples, AreValidAndSurviveBeingWritten) {
  int examples = 0;
  for (const auto& entry : std::filesystem::directory_iterator(SPILLWAY_EXAMPLES "/pool")) {
    if (entry.path().extension() != ".yaml") continue;
    examples++;
    auto config = LoadConfig(entry.path().string());
    ASSERT_TRUE(config) << config.error().message;
    auto again = ParseConfig(ToYaml(*config), "/written.yaml");
    ASSERT_TRUE(again) << again.error().message;
    EXPECT_EQ(*again, *config) << entry.path();
  }
  EXPECT_GE(examples, 3);
}

}  // namespace
}  // namespace spillway::model

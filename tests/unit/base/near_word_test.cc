// SPDX-License-Identifier: Apache-2.0
#include "base/near_word.h"

#include <gtest/gtest.h>

#include <string>

namespace spillway::base {
namespace {

TEST(NearWord, IsTheOneThatWasMistyped) {
  const std::vector<std::string_view> verbs{"check", "show", "drain", "stats", "set"};
  EXPECT_EQ(NearWord("shw", verbs), "show");
  EXPECT_EQ(NearWord("hsow", verbs), "show");
  EXPECT_EQ(NearWord("chekc", verbs), "check");
  EXPECT_EQ(NearWord("stat", verbs), "stats");
}

TEST(NearWord, IsTheOneThatWasBegun) {
  EXPECT_EQ(NearWord("cpu", {"gpus", "cpu_milli"}), "cpu_milli");
  EXPECT_EQ(NearWord("cp", {"gpus", "cpu_milli"}), "");
}

TEST(NearWord, IsNoneWhereAllAreFar) {
  const std::vector<std::string_view> words{"show", "up"};
  EXPECT_EQ(NearWord("xyz", words), "") << "as many changes as the word has letters";
  EXPECT_EQ(NearWord("encyclopaedia", words), "");
  EXPECT_EQ(NearWord(std::string(65, 's'), words), "");
  EXPECT_EQ(NearWord("show", {}), "");
}

}  // namespace
}  // namespace spillway::base

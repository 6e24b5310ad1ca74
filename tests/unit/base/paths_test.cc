// SPDX-License-Identifier: Apache-2.0
#include "base/paths.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>

namespace spillway::base {
namespace {

using testing::StartsWith;

TEST(Paths, AreAbsoluteAndNormal) {
  EXPECT_EQ(AbsolutePath("/a/../b/./c"), "/b/c");
  EXPECT_EQ(AbsolutePath("x"), (std::filesystem::current_path() / "x").string());
}

TEST(Paths, StayRelativeWhereTheCurrentFolderIsGone) {
  const auto before = std::filesystem::current_path();
  const auto folder = MakeTemporaryFolder("spillway-paths-");
  ASSERT_TRUE(folder);
  ASSERT_EQ(chdir(folder->c_str()), 0);
  ASSERT_EQ(rmdir(folder->c_str()), 0);
  EXPECT_EQ(AbsolutePath("a/../x"), "x");
  EXPECT_EQ(AbsolutePath("/a"), "/a");
  std::filesystem::current_path(before);
}

TEST(Paths, ATemporaryFolderLiesInTmpdirWhichMustBeThere) {
  const char* before = std::getenv("TMPDIR");
  const std::string kept = before == nullptr ? "" : before;
  const auto outer = MakeTemporaryFolder("spillway-paths-");
  ASSERT_TRUE(outer);
  setenv("TMPDIR", outer->c_str(), 1);
  const auto inner = MakeTemporaryFolder("x-");
  ASSERT_TRUE(inner);
  EXPECT_THAT(*inner, StartsWith(*outer + "/x-"));
  std::filesystem::remove_all(*outer);
  const auto none = MakeTemporaryFolder("x-");
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, ErrorCode::kBadInput);
  EXPECT_THAT(none.error().message, StartsWith("TMPDIR: expected a folder for temporary files"));
  kept.empty() ? unsetenv("TMPDIR") : setenv("TMPDIR", kept.c_str(), 1);
}

}  // namespace
}  // namespace spillway::base

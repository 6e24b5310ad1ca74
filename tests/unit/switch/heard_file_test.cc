// SPDX-License-Identifier: Apache-2.0
#include "switch/heard_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

namespace spillway::switching {
namespace {

class HeardFile : public testing::Test {
 protected:
  HeardFile() {
    std::string name = testing::TempDir() + "/spillway-heard-XXXXXX";
    folder_ = mkdtemp(name.data());
    path_ = folder_ + "/one.reports";
  }
  ~HeardFile() override { std::filesystem::remove_all(folder_); }
  std::string folder_, path_;
};

TEST_F(HeardFile, GivesBackWhatWasSaved) {
  HeardReport report;
  report.key_tag = KeyTag({1, 2, 3});
  report.last.boot_id = 1'700'000'000'000'000;
  report.last.sequence = 0xffffffff;
  ASSERT_TRUE(SaveHeard({{"p/s1/cpu", report}}, path_));
  const HeardReports heard = LoadHeard(path_);
  ASSERT_EQ(heard.size(), 1u);
  EXPECT_EQ(heard.at("p/s1/cpu").last.boot_id, report.last.boot_id);
  EXPECT_EQ(heard.at("p/s1/cpu").last.sequence, report.last.sequence);
  EXPECT_EQ(heard.at("p/s1/cpu").key_tag, report.key_tag);
  EXPECT_NE(KeyTag({1, 2, 3}), KeyTag({1, 2, 4}));
  EXPECT_TRUE(LoadHeard(folder_ + "/none").empty());
  std::ofstream(path_) << "[1, 2";
  EXPECT_TRUE(LoadHeard(path_).empty());
}

TEST_F(HeardFile, IsItsOwnersAlone) {
  std::ofstream(path_) << "{}";
  ASSERT_EQ(chmod(path_.c_str(), 0644), 0);
  ASSERT_TRUE(SaveHeard({}, path_));
  struct stat status {};
  ASSERT_EQ(stat(path_.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777, 0600u);
}

}  // namespace
}  // namespace spillway::switching

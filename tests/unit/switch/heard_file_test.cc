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

HeardReport Under(uint64_t key_tag, uint64_t boot_id, uint32_t sequence = 1) {
  HeardReport report{key_tag, {}};
  report.last.boot_id = boot_id;
  report.last.sequence = sequence;
  return report;
}

uint64_t TagOf(uint8_t first) {
  const uint8_t key[16] = {first};
  return KeyTag(spw_siphash_key_of(key));
}

TEST_F(HeardFile, GivesBackWhatWasSaved) {
  HeardUnit cpu;
  cpu.Note(Under(TagOf(1), 1'600'000'000'000'000));
  cpu.Note(Under(TagOf(2), 1'700'000'000'000'000, 0xffffffff));
  ASSERT_TRUE(SaveHeard({{"p/s1/cpu", cpu}}, path_));
  HeardReports heard = LoadHeard(path_);
  ASSERT_EQ(heard.size(), 1u);
  EXPECT_EQ(heard.at("p/s1/cpu").LastUnder(TagOf(2)).boot_id, 1'700'000'000'000'000u);
  EXPECT_EQ(heard.at("p/s1/cpu").LastUnder(TagOf(2)).sequence, 0xffffffffu);
  EXPECT_EQ(heard.at("p/s1/cpu").LastUnder(TagOf(1)).boot_id, 1'600'000'000'000'000u);
  EXPECT_EQ(heard.at("p/s1/cpu").LastUnder(TagOf(3)).boot_id, 0u);
  EXPECT_NE(TagOf(1), TagOf(2));
  EXPECT_TRUE(LoadHeard(folder_ + "/none").empty());
  std::ofstream(path_) << "[1, 2";
  EXPECT_TRUE(LoadHeard(path_).empty());
}

TEST_F(HeardFile, OfEarlierVersionsIsRead) {
  std::ofstream(path_) << R"({"a": [1000, 7], "b": [1001, 8, 99], "c": [1], "d": [[1, 2, 3, 4]], "e": "x"})";
  HeardReports heard = LoadHeard(path_);
  ASSERT_EQ(heard.size(), 2u);
  // Written before it was said whose key's it is: for the key that is in use when it is asked for.
  HeardUnit& unknown = heard.at("a");
  ASSERT_TRUE(SaveHeard({{"a", unknown}}, path_)) << "also after it was written again by this version";
  heard["a"] = LoadHeard(path_).at("a");
  EXPECT_EQ(unknown.LastUnder(5).boot_id, 1000u);
  EXPECT_EQ(unknown.LastUnder(6).boot_id, 0u);
  EXPECT_EQ(heard.at("b").LastUnder(99).sequence, 8u);
  EXPECT_EQ(heard.at("b").LastUnder(5).boot_id, 0u);
}

TEST_F(HeardFile, KeepsTheHighestOfTheLastKeys) {
  HeardUnit unit;
  for (uint64_t key = 1; key <= kHeardKeys; key++) unit.Note(Under(key, 100 * key));
  unit.Note(Under(1, 50));
  EXPECT_EQ(unit.LastUnder(1).boot_id, 100u) << "an older report takes nothing back";
  unit.Note(Under(1, 200));
  EXPECT_EQ(unit.LastUnder(1).boot_id, 200u);
  unit.Note(Under(77, 1));
  EXPECT_EQ(unit.reports().size(), kHeardKeys);
  EXPECT_EQ(unit.LastUnder(2).boot_id, 0u) << "the one that was not heard for longest goes";
  EXPECT_EQ(unit.LastUnder(1).boot_id, 200u);
  unit.Forget(1);
  EXPECT_EQ(unit.LastUnder(1).boot_id, 0u);
  EXPECT_EQ(unit.LastUnder(3).boot_id, 300u);
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

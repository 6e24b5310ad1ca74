// SPDX-License-Identifier: Apache-2.0
#include "model/secret_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>
#include <thread>
#include <vector>

namespace spillway::model {
namespace {

using testing::HasSubstr;
using testing::Not;

class SeedFile : public testing::Test {
 protected:
  SeedFile() {
    std::string name = testing::TempDir() + "/spillway-seed-XXXXXX";
    folder_ = mkdtemp(name.data());
    path_ = folder_ + "/flow.seed";
  }
  ~SeedFile() override { std::filesystem::remove_all(folder_); }

  std::string folder_, path_;
};

TEST_F(SeedFile, TextGivesTheSameSeed) {
  spw_seed seed{{1, 0xffffffff, 3, 4, 5, 6, 7, 8, 9, 0xabcdef01}, 0x0123456789abcdef};
  const std::string text = SeedText(seed);
  EXPECT_EQ(text.substr(0, 16), "00000001ffffffff");
  EXPECT_EQ(text.substr(80), "0123456789abcdef\n");
  const auto parsed = ParseSeed(" " + text);
  ASSERT_TRUE(parsed);
  EXPECT_EQ(std::memcmp(&*parsed, &seed, sizeof(seed)), 0);
  for (const std::string& bad : {std::string(), text.substr(1), "0" + text, "x" + text.substr(1),
                                 "0x" + text.substr(2), "-1" + text.substr(2), "+1" + text.substr(2)})
    EXPECT_FALSE(ParseSeed(bad)) << bad;
}

TEST_F(SeedFile, IsMadeOnceAndForItsOwnerAlone) {
  const auto made = ReadOrMakeSeedFile(path_, std::nullopt);
  ASSERT_TRUE(made) << made.error().message;
  struct stat status {};
  ASSERT_EQ(stat(path_.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777, 0600u);
  spw_seed other{};
  const auto again = ReadOrMakeSeedFile(path_, other);
  ASSERT_TRUE(again);
  EXPECT_EQ(SeedText(*again), SeedText(*made));
  EXPECT_NE(SeedText(*made), SeedText(other));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_), {}), 1) << "nothing else is left";
}

TEST_F(SeedFile, OfMakersAtOnceOneWins) {
  for (int round = 0; round < 20; round++) {
    std::filesystem::remove(path_);
    std::vector<std::string> seeds(4);
    std::vector<std::thread> makers;
    for (std::string& seed : seeds)
      makers.emplace_back([&] {
        const auto made = ReadOrMakeSeedFile(path_, std::nullopt);
        seed = made ? SeedText(*made) : made.error().message;
      });
    for (std::thread& maker : makers) maker.join();
    EXPECT_EQ(std::set<std::string>(seeds.begin(), seeds.end()).size(), 1u);
  }
}

TEST_F(SeedFile, TheRunningSeedIsKept) {
  const spw_seed running{{7, 7, 7}, 7};
  const auto made = ReadOrMakeSeedFile(path_, running);
  ASSERT_TRUE(made);
  EXPECT_EQ(SeedText(*made), SeedText(running));
  EXPECT_EQ(SeedText(**ReadSeedFile(path_)), SeedText(running));
}

TEST_F(SeedFile, AnythingElseIsRefusedAndNeverShownOrReplaced) {
  std::ofstream(path_) << "secret but no seed";
  const auto read = ReadOrMakeSeedFile(path_, std::nullopt);
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().code, ErrorCode::kBadInput);
  EXPECT_THAT(read.error().message, HasSubstr(path_));
  EXPECT_THAT(read.error().message, Not(HasSubstr("secret but")));
  const auto nowhere = ReadOrMakeSeedFile(folder_ + "/none/flow.seed", std::nullopt);
  ASSERT_FALSE(nowhere);
  EXPECT_THAT(nowhere.error().message, HasSubstr(folder_ + "/none/flow.seed"));
}

}  // namespace
}  // namespace spillway::model

// SPDX-License-Identifier: Apache-2.0
#include "model/secret_files.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>

namespace spillway::model {
namespace {

TEST(KeyFile, HoldsThirtyTwoHexDigits) {
  auto key = ParseKey(" 000102030405060708090A0b0c0d0e0f\r\n");
  ASSERT_TRUE(key);
  for (uint8_t i = 0; i < 16; i++) EXPECT_EQ((*key)[i], i);
  for (const char* text : {"", "\n", "000102030405060708090a0b0c0d0e0", "000102030405060708090a0b0c0d0e0f0",
                           "000102030405060708090a0b0c0d0e0g", "0001020304050607 08090a0b0c0d0e0f",
                           "0x0102030405060708090a0b0c0d0e0f"})
    EXPECT_FALSE(ParseKey(text)) << text;
}

TEST(KeyFile, ErrorsNameTheFileAndNeverItsContents) {
  std::string path = testing::TempDir() + "/spillway_key_file_test";
  std::ofstream(path) << "secret but not hex";
  auto read = ReadKeyFile(path);
  ASSERT_FALSE(read);
  EXPECT_NE(read.error().message.find(path), std::string::npos);
  EXPECT_EQ(read.error().message.find("secret but"), std::string::npos);

  std::ofstream(path) << "000102030405060708090a0b0c0d0e0f" << std::string(1000, '\n');
  EXPECT_FALSE(ReadKeyFile(path)) << "longer than any key file";
  std::remove(path.c_str());
  EXPECT_FALSE(ReadKeyFile(path));
  EXPECT_FALSE(ReadKeyFile(testing::TempDir())) << "a directory";
}

TEST(KeyFile, KeysThatChanceDidNotMakeAreToldWithoutShowingThem) {
  const std::string path = testing::TempDir() + "/spillway_guessable_key";
  std::ofstream(path) << "any";
  ASSERT_EQ(chmod(path.c_str(), 0600), 0);
  for (const char* guessable : {"000102030405060708090a0b0c0d0e0f", "101112131415161718191a1b1c1d1e1f",
                                "00000000000000000000000000000000", "ffeeddccbbaa99887766554433221100",
                                "f8f9fafbfcfdfeff0001020304050607"}) {
    const auto warnings = KeyFileWarnings(path, *ParseKey(guessable));
    ASSERT_EQ(warnings.size(), 1U) << guessable;
    EXPECT_NE(warnings[0].find("anyone can guess"), std::string::npos) << warnings[0];
    EXPECT_EQ(warnings[0].find(guessable), std::string::npos) << warnings[0];
  }
  EXPECT_TRUE(KeyFileWarnings(path, *ParseKey("000102030405060708090a0b0c0d0e10")).empty());
  EXPECT_TRUE(KeyFileWarnings(path, *ParseKey("9f3a5c0e7712d4b86a01ffcc3e249b57")).empty());
  ASSERT_EQ(chmod(path.c_str(), 0644), 0);
  EXPECT_EQ(KeyFileWarnings(path, Key{}).size(), 2U) << "and what is told of its mode";
  std::remove(path.c_str());
}

TEST(KeyFile, NothingThatItMayBeHoldsTheReaderUp) {
  const std::string path = testing::TempDir() + "/spillway_key_fifo";
  std::remove(path.c_str());
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  EXPECT_NE(ReadKeyFile(path).error().message.find("not a regular file"), std::string::npos);
  std::remove(path.c_str());
}

TEST(KeyFile, ModesThatGiveTheKeyAwayAreToldOrRefused) {
  const std::string path = testing::TempDir() + "/spillway_key_mode_test";
  std::ofstream(path) << "000102030405060708090a0b0c0d0e0f";
  struct {
    mode_t mode;
    bool good;
    const char* warning;
  } cases[] = {{0600, true, ""},
               {0640, true, ""},
               {0644, true, "any user may read it"},
               {0660, true, "its group may change it"},
               {0666, false, "any user may read it"},
               {0602, false, ""}};
  for (const auto& c : cases) {
    ASSERT_EQ(chmod(path.c_str(), c.mode), 0);
    const auto read = ReadKeyFile(path);
    EXPECT_EQ(read.has_value(), c.good) << std::oct << c.mode;
    if (!read) {
      EXPECT_NE(read.error().message.find("any user may write to"), std::string::npos);
    }
    const std::string warning = SecretFileWarning(path).value_or("");
    EXPECT_NE(warning.find(c.warning), std::string::npos) << std::oct << c.mode << warning;
    EXPECT_EQ(warning.empty(), *c.warning == 0) << std::oct << c.mode << warning;
  }
  std::remove(path.c_str());
}

}  // namespace
}  // namespace spillway::model

// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "model/diff.h"
#include "model/parse.h"
#include "model/yaml.h"
#include "random_config.h"

namespace spillway::model {
namespace {

class RoundTrip : public testing::Test {
 protected:
  void SetUp() override {
    // Characters that YAML gives a meaning, all of which a path may hold.
    folder_ = std::filesystem::path(testing::TempDir()) /
              ("spillway round: \"trip\" \\ #{" + std::to_string(::getpid()) + "}");
    std::filesystem::create_directories(folder_);
    key_file_ = (folder_ / "s.key").string();
    std::ofstream(key_file_) << "0102030405060708090a0b0c0d0e0f10\n";
    std::ofstream(key_file_ + ".pem") << "-----BEGIN CERTIFICATE-----\n";
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  RandomConfig Random(uint64_t seed) {
    Key key;
    for (uint8_t i = 0; i < 16; i++) key[i] = i + 1;
    return {seed, key_file_, key};
  }

  std::filesystem::path folder_;
  std::string key_file_;
};

TEST_F(RoundTrip, WrittenConfigsAreReadAsTheyWere) {
  RandomConfig random = Random(1);
  for (int i = 0; i < 1000; i++) {
    Config config = random.Next();
    std::string text = ToYaml(config);
    auto again = ParseConfig(text, "elsewhere/pool.yaml");
    ASSERT_TRUE(again) << again.error().message << "\n" << text;
    ASSERT_EQ(Diff(config, *again), std::vector<std::string>()) << text;
    ASSERT_TRUE(*again == config) << text;
    ASSERT_EQ(ToYaml(*again), text);
  }
}

TEST_F(RoundTrip, DiffIsEmptyExactlyForEqualConfigs) {
  RandomConfig random = Random(2);
  Config from = random.Next();
  for (int i = 0; i < 500; i++) {
    Config to = random.Next();
    ASSERT_EQ(Diff(from, to).empty(), from == to);
    ASSERT_TRUE(Diff(to, to).empty());
    from = to;
  }
}

}  // namespace
}  // namespace spillway::model

// SPDX-License-Identifier: Apache-2.0
#include "agent/boot_id.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "core/report.h"

namespace spillway::agent {
namespace {

class BootIdTest : public testing::Test {
 protected:
  BootIdTest() {
    std::string name = testing::TempDir() + "/spillway-boot-XXXXXX";
    folder_ = mkdtemp(name.data());
    path_ = folder_ + "/agents/3-1.boot";
  }
  ~BootIdTest() override { std::filesystem::remove_all(folder_); }
  void Write(const std::string& text) {
    std::filesystem::create_directories(folder_ + "/agents");
    std::ofstream(path_) << text;
  }

  std::string folder_, path_;
};

TEST_F(BootIdTest, AnAgentStartedAfterTheClockWasSetBackIsHeard) {
  const uint64_t before = *TakeBootId(path_, 1'700'000'000'000'000);
  EXPECT_EQ(before, 1'700'000'000'000'000u);
  spw_report report{};
  report.boot_id = *TakeBootId(path_, 1'000'000);  // a board without a clock of its own, after a reboot
  report.sequence = 1;
  spw_report_seen seen{};
  seen.boot_id = before;
  seen.sequence = 12345;
  EXPECT_TRUE(spw_report_is_newer(&report, &seen));
  EXPECT_EQ(*TakeBootId(path_, 1'000'000), before + 2);
  EXPECT_EQ(*TakeBootId(path_, 1'800'000'000'000'000), 1'800'000'000'000'000u) << "the clock is right again";
}

TEST_F(BootIdTest, AFileThatHoldsNoBootIdIsReplaced) {
  for (const char* text : {"", "x", "-5", "99999999999999999999", "18446744073709551615"}) {
    Write(text);
    EXPECT_EQ(*TakeBootId(path_, 1000), 1000u) << text;
    EXPECT_EQ(*TakeBootId(path_, 1000), 1001u) << text;
  }
}

TEST_F(BootIdTest, WhatCannotBeKeptIsAnErrorThatNamesTheFile) {
  std::ofstream(folder_ + "/agents") << "a file where the folder should be";
  const auto taken = TakeBootId(path_, 1000);
  ASSERT_FALSE(taken);
  EXPECT_NE(taken.error().message.find(path_), std::string::npos);
  EXPECT_GT(TakeBootId(path_), 1000u) << "the agent reports all the same";
}

}  // namespace
}  // namespace spillway::agent

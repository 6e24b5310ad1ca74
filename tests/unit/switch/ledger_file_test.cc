// SPDX-License-Identifier: Apache-2.0
// The ledger on disk: what is saved is what is loaded, and garbage is no ledger.
#include "switch/ledger_file.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>

namespace spillway::switching {
namespace {

class LedgerFileTest : public testing::Test {
 protected:
  LedgerFileTest() {
    char name[] = "/tmp/spillway-ledger-XXXXXX";
    folder_ = mkdtemp(name);
    path_ = folder_ + "/codes.json";
    (void)ledger_.services.Assign("dns \"quoted\"");
    (void)ledger_.servers.Assign("p/s0");
    (void)ledger_.servers.Restore("p/s1", 4095);
    ledger_.unit_index = {{"p/s0/cpu", 0}, {"p/s0/nic", 1}};
    ledger_.rings["dns \"quoted\""] = {7, 4099};
    ledger_.status["p/s0/nic"] = SPW_UNIT_DRAINING;
  }
  ~LedgerFileTest() override { std::filesystem::remove_all(folder_); }
  void Write(const std::string& text) { std::ofstream(path_) << text; }
  std::string Read() {
    std::ostringstream text;
    text << std::ifstream(path_).rdbuf();
    return text.str();
  }

  std::string folder_, path_;
  Ledger ledger_;
};

TEST_F(LedgerFileTest, WhatIsSavedIsLoaded) {
  ASSERT_TRUE(SaveLedger(ledger_, path_).has_value());
  auto loaded = LoadLedger(path_);
  ASSERT_TRUE(loaded.has_value());
  EXPECT_EQ(loaded->services.entries(), ledger_.services.entries());
  EXPECT_EQ(loaded->servers.entries(), ledger_.servers.entries());
  EXPECT_EQ(loaded->unit_index, ledger_.unit_index);
  EXPECT_EQ(loaded->status, ledger_.status);
  ASSERT_EQ(loaded->rings.size(), 1u);
  EXPECT_EQ(loaded->rings.begin()->second.offset, 7u);
  EXPECT_EQ(loaded->rings.begin()->second.slots, 4099u);
  EXPECT_FALSE(std::filesystem::exists(path_ + ".new"));
}

TEST_F(LedgerFileTest, SavingAgainReplacesWhole) {
  ASSERT_TRUE(SaveLedger(ledger_, path_).has_value());
  ASSERT_TRUE(SaveLedger(Ledger{}, path_).has_value());
  EXPECT_TRUE(LoadLedger(path_)->servers.entries().empty());
}

TEST_F(LedgerFileTest, AFolderThatIsGoneIsAnErrorWithThePath) {
  auto saved = SaveLedger(ledger_, folder_ + "/none/codes.json");
  ASSERT_FALSE(saved.has_value());
  EXPECT_NE(saved.error().message.find(folder_ + "/none/codes.json"), std::string::npos);
}

TEST_F(LedgerFileTest, NoFileAndGarbageAreNoLedger) {
  EXPECT_FALSE(LoadLedger(path_));
  for (const char* text :
       {"", "{", "[]", "null", "42", "{}", "\"x\"", "{\"layout\": 1}", "{\"layout\": \"1\"}"}) {
    Write(text);
    EXPECT_FALSE(LoadLedger(path_)) << text;
  }
}

TEST_F(LedgerFileTest, AFolderOfThatNameIsNoLedger) { EXPECT_FALSE(LoadLedger(::testing::TempDir())); }

TEST_F(LedgerFileTest, AnotherLayoutIsNoLedger) {
  ASSERT_TRUE(SaveLedger(ledger_, path_).has_value());
  std::string text = Read(), from = "\"layout\": " + std::to_string(SPW_LAYOUT);
  ASSERT_NE(text.find(from), std::string::npos);
  Write(text.replace(text.find(from), from.size(), "\"layout\": 999"));
  EXPECT_FALSE(LoadLedger(path_));
}

TEST_F(LedgerFileTest, TwoNamesUnderOneCodeAreNoLedger) {
  ASSERT_TRUE(SaveLedger(ledger_, path_).has_value());
  std::string text = Read();
  size_t at = text.find("4095");
  ASSERT_NE(at, std::string::npos);
  Write(text.replace(at, 4, "0"));
  EXPECT_FALSE(LoadLedger(path_));
}

// Cut or flipped anywhere: loaded or refused, never a crash.
TEST_F(LedgerFileTest, DamageNeverCrashes) {
  ASSERT_TRUE(SaveLedger(ledger_, path_).has_value());
  const std::string good = Read();
  for (size_t length = 0; length + 2 < good.size(); length += 60) {
    Write(good.substr(0, length));
    EXPECT_FALSE(LoadLedger(path_)) << length;
  }
  std::mt19937_64 random(99);
  for (int i = 0; i < 60; i++) {
    std::string bad = good;
    for (int n = 0; n < 3; n++) bad[random() % bad.size()] = static_cast<char>(32 + random() % 96);
    Write(bad);
    (void)LoadLedger(path_);
  }
}

TEST_F(LedgerFileTest, IndicesAndStatesThatCannotBeAreRefused) {
  ledger_.unit_index["p/s0/gpu"] = SPW_UNITS_PER_SERVER;
  ASSERT_TRUE(SaveLedger(ledger_, path_).has_value());
  EXPECT_FALSE(LoadLedger(path_));
  ledger_.unit_index.erase("p/s0/gpu");
  ASSERT_TRUE(SaveLedger(ledger_, path_).has_value());
  std::string text = Read();
  const std::string draining = "\"p/s0/nic\": 2";
  ASSERT_NE(text.find(draining), std::string::npos) << text;
  Write(text.replace(text.find(draining), draining.size(), "\"p/s0/nic\": 9"));
  EXPECT_FALSE(LoadLedger(path_));
}

TEST_F(LedgerFileTest, RingsFitInTheDataPlaneAndBesideEachOther) {
  EXPECT_TRUE(RingsFit(ledger_, 7 + 4099));
  EXPECT_FALSE(RingsFit(ledger_, 7 + 4098));
  ledger_.rings["web"] = {7 + 4099, 10};
  EXPECT_TRUE(RingsFit(ledger_, 10'000));
  ledger_.rings["web"] = {7 + 4098, 10};
  EXPECT_FALSE(RingsFit(ledger_, 10'000)) << "one slot of two rings";
  ledger_.rings["web"] = {0xffffffff, 10};
  EXPECT_FALSE(RingsFit(ledger_, 10'000)) << "no wrap";
  ledger_.rings["web"] = {0, 0};
  EXPECT_FALSE(RingsFit(ledger_, 10'000)) << "no ring without slots";
}

}  // namespace
}  // namespace spillway::switching

// SPDX-License-Identifier: Apache-2.0
// `spillway bench flood` as users run it. What it shows is the guarantee of docs/flood.md.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>

#include "base/paths.h"
#include "lab/testbed/process.h"

namespace spillway::lab {
namespace {

namespace fs = std::filesystem;

class FloodBench : public testing::Test {
 protected:
  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "needs root";
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  nlohmann::json Run(const std::vector<std::string>& words) {
    StartOptions o;
    o.argv = {base::ProgramFolder() + "/spillway", "bench", "flood", "--json"};
    o.argv.insert(o.argv.end(), words.begin(), words.end());
    o.stdout_file = folder_ + "/out";
    o.stderr_file = folder_ + "/log";
    const auto id = Start(o);
    EXPECT_TRUE(id) << id.error().message;
    const auto status = Wait(*id);
    EXPECT_TRUE(status && *status == 0) << Read("/log");
    return nlohmann::json::parse(Read("/out"), nullptr, false).value("rows", nlohmann::json::array());
  }
  std::string Read(const std::string& name) const {
    std::ifstream in(folder_ + name);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  static void ExpectGuarantee(const nlohmann::json& row) {
    EXPECT_EQ(row.at("moved"), 0) << row;
    EXPECT_GT(row.at("live_flows"), 0) << row;
    EXPECT_GT(row.at("idle_flows"), 0) << row;
    EXPECT_GT(row.at("new_tried"), 0) << row;
    EXPECT_GE(row.at("new_connected_pct"), row.at("stateless_connected_pct")) << row;
  }

  const std::string folder_ = testing::TempDir() + "flood_bench_test";
};

TEST_F(FloodBench, OfPacketsNoFlowMovesAndNewOnesConnectAsWithoutMemory) {
  const auto rows = Run({"--bed", "packets", "--table-entries", "8192", "--policies", "headroom,wrr"});
  std::set<std::pair<std::string, std::string>> played;
  for (const auto& row : rows) {
    played.emplace(row.at("attack"), row.at("policy"));
    EXPECT_EQ(row.at("table_times"), 10);
    EXPECT_EQ(row.at("stateless_connected_pct"), 100) << row;
    EXPECT_GT(row.at("off_ring_pct"), 0) << "nothing that could be forgotten: " << row;
    ExpectGuarantee(row);
    for (const char* round_trip : {"connected_0ms_pct", "connected_50ms_pct", "connected_200ms_pct"})
      EXPECT_EQ(row.at(round_trip), 100) << round_trip << ": " << row;
  }
  EXPECT_EQ(played.size(), 6u * 2);
  EXPECT_EQ(rows.size(), 6u * 2 * 2) << "at two paces";
}

// Few, as it takes what a machine has: that it stands, floods and takes all down again.
TEST_F(FloodBench, OfRealConnectionsNoneMoves) {
  const auto rows = Run({"--bed", "connections", "--attacks", "rst", "--table-times", "1"});
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].at("moved"), 0) << rows[0];
  EXPECT_EQ(rows[0].at("live_flows"), 100);
  EXPECT_GT(rows[0].at("new_tried"), 0);
  EXPECT_GT(rows[0].at("new_connected_pct"), 0) << rows[0];
  std::error_code none;
  for (const auto& entry : fs::directory_iterator("/run/netns", none))
    EXPECT_EQ(entry.path().filename().string().find("flood"), std::string::npos) << entry.path();
}

}  // namespace
}  // namespace spillway::lab

// SPDX-License-Identifier: Apache-2.0
// `spillway sim` as its users meet it, with the real engine.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <thread>

#include "program.h"

namespace spillway {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

const std::string kScenario =
    "sim:\n"
    "  name: tiny\n"
    "  apps:\n"
    "    - name: dns\n"
    "      units:\n"
    "        - {name: cpu, kind: cpu, capacity: 5, service: 436us, unloaded: 3ms}\n"
    "        - {name: nic, kind: smartnic, capacity: 1, service: 2182us, unloaded: 3ms}\n"
    "  load_pct: [50, 90]\n"
    "  policies:\n"
    "    - {name: headroom}\n"
    "    - {name: host-only, unit_policy: host-only}\n"
    "    - {name: bound, decider: omniscient, wait_weights: [1, 2]}\n"
    "  requests: 20000\n";

class SimCli : public ::testing::Test {
 protected:
  void SetUp() override { folder_.Write("s.yaml", kScenario); }

  testing::Outcome Run(std::vector<std::string> words) const {
    words.insert(words.begin(), {SPILLWAY, "sim"});
    return testing::RunProgram(words);
  }
  std::string File() const { return folder_.File("s.yaml"); }
  json Rows(std::vector<std::string> words) const {
    words.insert(words.begin(), {File(), "--json"});
    const testing::Outcome outcome = Run(words);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    return json::parse(outcome.out)["rows"];
  }

  testing::Folder folder_;
};

TEST_F(SimCli, PrintsATableAndWhatItSays) {
  const testing::Outcome outcome = Run({File()});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("dns: p99 in ms\nload_pct  headroom           host-only  bound\n"));
  EXPECT_THAT(outcome.out, HasSubstr(" % late)  "));
  EXPECT_THAT(outcome.out, HasSubstr("\nlate: answered after 30 ms, 10 x the unloaded latency of cpu; "
                                     "loss_over_unloaded sets it\n"));
  EXPECT_THAT(outcome.out, HasSubstr("headroom: regret over all 1 point: "))
      << "at 90 % the host alone loses";
  EXPECT_THAT(outcome.out,
              HasSubstr("headroom: loses no requests where every other policy loses some: at 1 point"));
}

TEST_F(SimCli, TheHostAloneLosesBeyondItsCapacity) {
  const json rows = Rows({});
  ASSERT_EQ(rows.size(), 6u);
  EXPECT_EQ(rows[0]["policy"], "headroom");
  EXPECT_EQ(rows[4]["policy"], "host-only");
  EXPECT_EQ(rows[4]["load_pct"], 90);
  EXPECT_GT(rows[4]["loss"], 0.01);
  EXPECT_EQ(rows[4]["share_nic"], 0);
  EXPECT_LT(rows[3]["loss"], 0.01);
  EXPECT_GT(rows[3]["share_nic"], 0);
  EXPECT_LE(rows[2]["p99_ms"], rows[0]["p99_ms"]) << "nothing is better than the bound";
  EXPECT_THAT(rows[2]["tried"].get<std::string>(), StartsWith("wait "));
  EXPECT_TRUE(rows[0]["tried"].is_null());
}

TEST_F(SimCli, RowsAreTheSameWithAnyNumberOfThreads) {
  EXPECT_EQ(Rows({"--threads", "1"}), Rows({"--threads", "3"}));
}

TEST_F(SimCli, QuickIsATenthOfTheRequestsWarmUpIncluded) {
  const json quick = Rows({"--quick"});
  EXPECT_EQ(quick, Rows({"--requests", "2000"}));
  EXPECT_NE(quick, Rows({}));
}

TEST_F(SimCli, OutHoldsThePageAndTheDocument) {
  const std::string out = folder_.File("new/out");
  const testing::Outcome outcome = Run({File(), "--quick", "--out", out});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr(out + "/report.html\n"));
  EXPECT_EQ(json::parse(folder_.Read("new/out/report.json"))["rows"], Rows({"--quick"}));
  EXPECT_EQ(json::parse(folder_.Read("new/out/report.json"))["bench"], "sim.tiny");
  EXPECT_THAT(folder_.Read("new/out/report.html"), StartsWith("<!DOCTYPE html>"));
}

TEST_F(SimCli, ABadScenarioIsNamedByFileAndLine) {
  folder_.Write("bad.yaml", kScenario + "  requests: 5\n  colour: red\n");
  const testing::Outcome outcome = Run({folder_.File("bad.yaml")});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.out, IsEmpty());
  EXPECT_EQ(outcome.err,
            "spillway: " + folder_.File("bad.yaml") +
                ":14: sim.requests: duplicate key, already on line 13\n" +
                "spillway: " + folder_.File("bad.yaml") +
                ":15: sim: unknown key \"colour\", known are name, apps, arrivals, load_pct, rps, "
                "work, reports, policies, wire, requests, warm_up, runs, cold_start, flows, switches, seed, "
                "loss_over_unloaded, silent_after\n");
  EXPECT_EQ(Run({folder_.File("missing.yaml")}).exit_code, 2);
}

TEST_F(SimCli, LoadsThatLookLikeSharesAreDoubted) {
  std::string text = kScenario;
  text.replace(text.find("[50, 90]"), 8, "[0.5, 0.9]");
  folder_.Write("shares.yaml", text);
  const testing::Outcome outcome = Run({folder_.File("shares.yaml"), "--quick"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("spillway: " + folder_.File("shares.yaml") +
                                     ": sim.load_pct is in percent: 0.5 is 0.5 %, did you mean 50?\n"));
}

TEST_F(SimCli, BadUsageExitsWithTwo) {
  const std::vector<std::vector<std::string>> kCases = {{},
                                                        {File(), "--requests", "10"},
                                                        {File(), "--requests", "1000", "--quick"},
                                                        {File(), "--threads", "0"},
                                                        {File(), "--colour"}};
  for (const auto& words : kCases) {
    const testing::Outcome outcome = Run(words);
    EXPECT_EQ(outcome.exit_code, 2) << (words.empty() ? "" : words.back());
    EXPECT_THAT(outcome.err, ::testing::Not(IsEmpty()));
  }
}

TEST_F(SimCli, AFolderThatCannotBeMadeIsAFailureBeforeTheRuns) {
  const testing::Outcome outcome = Run({File(), "--out", File() + "/below"});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.out, IsEmpty());
  EXPECT_THAT(outcome.err, HasSubstr("--out " + File() + "/below: expected a folder"));
}

TEST_F(SimCli, CtrlCEndsItWithThePointsThatAreWhole) {
  std::string loads = "1";
  for (int i = 2; i <= 1000; i++) loads += ", " + std::to_string(i);
  std::string text = kScenario;
  text.replace(text.find("[50, 90]"), 8, "[" + loads + "]");
  folder_.Write("long.yaml", text + "  seed: 2\n");
  testing::Running sim(
      {SPILLWAY, "sim", folder_.File("long.yaml"), "--requests", "200000", "--out", folder_.File("out")},
      folder_.File("log"));
  // The bar shows that it runs, and catches the signal.
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (folder_.Read("log").find("sim tiny") == std::string::npos) {
    ASSERT_LT(std::chrono::steady_clock::now(), give_up) << folder_.Read("log");
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  sim.Signal(SIGINT);
  EXPECT_EQ(sim.Wait(), 130);
  EXPECT_THAT(folder_.Read("log"), HasSubstr("spillway: interrupted: these are the "));
  const json document = json::parse(folder_.Read("out/report.json"));
  EXPECT_GT(document["ratios"]["rows_missing"], 0);
  EXPECT_EQ(document["ratios"]["rows_missing"].get<size_t>() + document["rows"].size(), 3000u);
}

}  // namespace
}  // namespace spillway

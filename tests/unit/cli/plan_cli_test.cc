// SPDX-License-Identifier: Apache-2.0
// `spillway plan` as its users meet it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <signal.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>

#include "program.h"

namespace spillway {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;

const std::string kWorkload =
    "plan:\n"
    "  name: small\n"
    "  time: {cpu: 0.4, shuffle: 0.6}\n"
    "  cpu: {ipu-e2000: 1}\n"
    "  baseline:\n"
    "    fabric: {port_gbps: 100}\n"
    "    lite-compute: {node: n2d-milan, nodes: 2}\n"
    "  limits: {slowdown: 1.5}\n"
    "  search: {nodes: [n2d-milan, ipu-e2000], most_nodes: 16}\n"
    "  requests: {service_ms: 50}\n";

class PlanCli : public ::testing::Test {
 protected:
  void SetUp() override { folder_.Write("w.yaml", kWorkload); }

  testing::Outcome Run(std::vector<std::string> words) const {
    words.insert(words.begin(), {SPILLWAY, "plan"});
    return testing::RunProgram(words);
  }
  json Document(std::vector<std::string> words) const {
    words.push_back("--json");
    const testing::Outcome outcome = Run(words);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    return json::parse(outcome.out);
  }
  std::string File() const { return folder_.File("w.yaml"); }

  testing::Folder folder_;
};

TEST_F(PlanCli, EveryVerbHasHelp) {
  for (const char* verb : {"compare", "search", "explain", "simulate", "paper", "probe"}) {
    const testing::Outcome outcome = Run({verb, "--help"});
    EXPECT_EQ(outcome.exit_code, 0) << verb;
    EXPECT_THAT(outcome.out, HasSubstr(verb));
  }
}

TEST_F(PlanCli, ComparePrintsATableAndWritesAPage) {
  const testing::Outcome outcome = Run({"compare", File(), "--out", folder_.File("out")});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("phi  slowdown"), HasSubstr("report.html")));
  EXPECT_THAT(folder_.Read("out/report.html"), AllOf(HasSubstr("<svg"), HasSubstr("Slowdown")));
  EXPECT_EQ(json::parse(folder_.Read("out/report.json"))["bench"], "plan.compare.small");
  EXPECT_EQ(Document({"compare", File()})["rows"].size(), 8u);
}

TEST_F(PlanCli, SearchFindsAMix) {
  const json document = Document({"search", File(), "--out", folder_.File("out")});
  EXPECT_EQ(document["rows"][1]["kind"], "best");
  EXPECT_LE(document["rows"][1]["slowdown"].get<double>(), 1.5);
  EXPECT_GT(document["ratios"]["cost_saving"].get<double>(), 1);
  EXPECT_THAT(folder_.Read("out/report.html"), HasSubstr("What speed costs"));
}

TEST_F(PlanCli, SearchMinimisesWhatItIsAsked) {
  const json cost = Document({"search", File(), "--no-sensitivity"}),
             energy = Document({"search", File(), "--no-sensitivity", "--objective", "energy"});
  EXPECT_LE(cost["rows"][1]["cost_usd"].get<double>(), energy["rows"][1]["cost_usd"].get<double>());
  EXPECT_LE(energy["rows"][1]["energy"].get<double>(), cost["rows"][1]["energy"].get<double>());
}

// Does the process deal with Ctrl-C by now? True as well once it has ended.
bool HearsCtrlC(pid_t pid) {
  std::ifstream status("/proc/" + std::to_string(pid) + "/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("State:") && line.find('Z') != std::string::npos) return true;
    if (line.starts_with("SigCgt:"))
      return (std::stoull(line.substr(7), nullptr, 16) >> (SIGINT - 1) & 1) != 0;
  }
  return true;
}

TEST_F(PlanCli, ASearchThatIsInterruptedSaysSo) {
  std::string text = kWorkload;
  text.replace(text.find("most_nodes: 16"), 14, "most_nodes: 100000");  // pairs of which take hours
  folder_.Write("w.yaml", text);
  for (const bool as_json : {false, true}) {
    std::vector<std::string> words = {SPILLWAY, "plan", "search", File()};
    if (as_json) words.push_back("--json");
    testing::Running search(words, folder_.File("log"));
    while (!HearsCtrlC(search.pid())) std::this_thread::yield();
    search.Signal(SIGINT);
    EXPECT_EQ(search.Wait(), 130);
    EXPECT_THAT(folder_.Read("log"), HasSubstr("spillway: interrupted"));
  }
}

TEST_F(PlanCli, AnUnmeetableLimitIsNamedAndFails) {
  const testing::Outcome outcome = Run({"search", File(), "--slo", "0.01"});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("slowdown cannot be met"), HasSubstr("% over")));
  EXPECT_EQ(Run({"explain", File(), "--slo", "0.01"}).exit_code, 1);
}

TEST_F(PlanCli, ExplainShowsTheTerms) {
  EXPECT_THAT(Run({"explain", File(), "--phi", "2"}).out,
              AllOf(HasSubstr("4 x ipu-e2000"), HasSubstr("share x baseline throughput")));
  EXPECT_EQ(Document({"explain", File()})["bench"], "plan.explain.small");
}

TEST_F(PlanCli, SimulateComparesPlanAndSimulator) {
  const json document = Document({"simulate", File(), "--phi", "2", "--requests", "5000"});
  EXPECT_EQ(document["rows"].size(), 4u);
  EXPECT_GT(document["ratios"]["simulated_slowdown_p2c"].get<double>(), 0);
}

TEST_F(PlanCli, SimulateSaysWhatIsOverTheLimit) {
  const std::vector<std::string> words = {"simulate", File(), "--phi", "2", "--requests", "2000", "--slo"};
  const auto with = [&](const char* slo) {
    auto all = words;
    all.push_back(slo);
    return Run(all).out;
  };
  EXPECT_THAT(with("0.1"), HasSubstr("over the limit of slowdown, 0.100"));
  EXPECT_THAT(with("100"), ::testing::Not(HasSubstr("over the limit")));
}

TEST_F(PlanCli, PaperMatchesOrSaysWhyNot) {
  const json document = Document({"paper"});
  ASSERT_FALSE(document["rows"].empty());
  for (const json& row : document["rows"])
    EXPECT_TRUE(row["match"].get<bool>() || !row["reason"].get<std::string>().empty()) << row;
}

TEST_F(PlanCli, ANodeThatCannotBeComparedIsRefused) {
  folder_.Write("other.yaml", kWorkload + "  compare: {node: p4mite-nic}\n");
  const std::string file = folder_.File("other.yaml");
  for (const auto& arguments : {std::vector<std::string>{"compare", file}, {"explain", file, "--phi", "2"}}) {
    const testing::Outcome outcome = Run(arguments);
    EXPECT_EQ(outcome.exit_code, 2);
    EXPECT_THAT(outcome.err, HasSubstr("plan.compare.node: expected a node whose throughput has yardstick"));
  }
}

TEST_F(PlanCli, LimitsAreGreaterThanNothing) {
  const testing::Outcome outcome = Run({"search", File(), "--slo", "-1"});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("expected a number greater than 0, got -1"));
}

TEST_F(PlanCli, AProbesEntryIsACatalogue) {
  const testing::Outcome probe = Run({"probe", "--quick", "--json", "--name", "here", "--price", "1000",
                                      "--out", folder_.File("probe.json")});
  ASSERT_EQ(probe.exit_code, 0) << probe.err;
  EXPECT_EQ(json::parse(probe.out)["catalogue"]["nodes"][0]["name"], "here");
  std::string text = kWorkload;
  text.replace(text.find("node: n2d-milan"), 15, "node: here");
  text.replace(text.find("{ipu-e2000: 1}"), 14, "{hash-join: 0.5, q1: 0.5}");
  text.replace(text.find("[n2d-milan, ipu-e2000]"), 22, "[here]");
  text.replace(text.find("  limits"), 2, "  compare: {node: here}\n  ");
  folder_.Write("mine.yaml", text);
  const testing::Outcome search =
      Run({"search", folder_.File("mine.yaml"), "--catalogue", folder_.File("probe.json")});
  EXPECT_EQ(search.exit_code, 0) << search.err;
  EXPECT_THAT(search.out, HasSubstr("x here (lite-compute)"));
}

TEST_F(PlanCli, BadInputIsToldByFileLineAndKey) {
  std::string text = kWorkload;
  text.replace(text.find("0.6"), 3, "0.5");
  folder_.Write("bad.yaml", text);
  const std::string bad = folder_.File("bad.yaml");
  for (const char* verb : {"compare", "search", "explain", "simulate"}) {
    const testing::Outcome outcome = Run({verb, bad});
    EXPECT_EQ(outcome.exit_code, 2) << verb;
    EXPECT_EQ(outcome.err, "spillway: " + bad + ":3: plan.time: expected shares that sum to 1, got 0.9\n");
    EXPECT_EQ(outcome.out, "");
  }
  EXPECT_EQ(Run({"search", folder_.File("nowhere.yaml")}).exit_code, 2);
  EXPECT_EQ(Run({"search", File(), "--slo", "-1"}).exit_code, 2);
  EXPECT_EQ(Run({"search", File(), "--model", "glam-1b"}).exit_code, 2);
  EXPECT_EQ(Run({"explain", File(), "--phi", "0.5"}).exit_code, 2) << "phi < 1";
  EXPECT_EQ(Run({"ponder"}).exit_code, 2);
  EXPECT_EQ(Run({}).exit_code, 2);
}

}  // namespace
}  // namespace spillway

// SPDX-License-Identifier: Apache-2.0
// What each key of a workload becomes, and what is refused. Lines of kWorkload are numbered in text.h.
#include "planner/workload_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "text.h"

namespace spillway::planner {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

TEST(WorkloadFile, TheLeastThatIsOneHasDocumentedDefaults) {
  const PlanInput input =
      Parse(With(kWorkload, "  search: {nodes: [n2d-milan, ipu-e2000], most_nodes: 16}\n", ""));
  const Workload& w = input.workload;
  EXPECT_EQ(w.time, (TimeShares{0.4, 0.6, 0, 0, 0}));
  EXPECT_FALSE(w.overlap);
  EXPECT_EQ(w.all_reduce, 0);
  EXPECT_EQ(w.baseline.fabric, (Fabric{100, 1}));
  EXPECT_EQ(w.limits.slowdown, 1.5);
  EXPECT_EQ(w.limits.memory_share, 1);
  EXPECT_FALSE(w.limits.cost_usd);
  EXPECT_EQ(w.space.nodes.size(), input.catalogue.nodes.size()) << "all of the catalogue";
  EXPECT_EQ(w.space.most_nodes, 16) << "8 for each server";
  EXPECT_THAT(w.space.ports_gbps, ElementsAre(100));
  EXPECT_THAT(w.space.oversubscriptions, ElementsAre(1));
  EXPECT_EQ(w.Workers(), NodeKind::kLiteCompute);
}

TEST(WorkloadFile, ModelsBringTheirFigures) {
  PlanInput input = Example("llm-training");
  EXPECT_EQ(input.workload.model, "glam-39b");
  EXPECT_EQ(input.workload.checkpoint.model_gb_per_accelerator, 4.55);
  EXPECT_EQ(input.workload.memory.runtime_gb, 4.7);
  ASSERT_TRUE(UseModel(input.workload, "glam-1b"));
  EXPECT_EQ(input.workload.checkpoint.model_gb_per_accelerator, 0.2);
  EXPECT_FALSE(UseModel(input.workload, "glam-2b"));
}

TEST(WorkloadFile, GivenCataloguesAreAddedToTheShippedOne) {
  const auto catalogue = ParseCatalogue(kCatalogue, "c.yaml");
  ASSERT_TRUE(catalogue);
  const std::string text = With(With(kWorkload, "ipu-e2000: 1", "work: 1"), "node: n2d-milan", "node: box");
  const std::string problem = WorkloadProblem(text);
  EXPECT_THAT(problem, HasSubstr("expected a node of the catalogue, got \"box\""));
  EXPECT_THAT(problem, Not(HasSubstr("yardstick"))) << "of a node that is not known nobody knows them";
  const auto read = ParseWorkload(text, "w.yaml", {*catalogue});
  // compare.node has no such yardstick; a plan only compares where asked to
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->catalogue.nodes[read->workload.baseline.groups[0].node].name, "box");
}

class BadWorkload : public testing::TestWithParam<BadValue> {};

TEST_P(BadWorkload, IsRefusedWithFileLineKeyAndExpectation) {
  const BadValue& bad = GetParam();
  EXPECT_THAT(WorkloadProblem(With(kWorkload, bad.from, bad.to)), HasSubstr(bad.says));
}

INSTANTIATE_TEST_SUITE_P(
    All, BadWorkload,
    testing::Values(
        BadValue{"shuffle: 0.6", "shuffle: 0.5",
                 "w.yaml:3: plan.time: expected shares that sum to 1, got 0.9"},
        BadValue{"shuffle: 0.6", "shuffle: -0.6",
                 "w.yaml:3: plan.time.shuffle: expected a number from 0 to 1, got \"-0.6\""},
        BadValue{"shuffle: 0.6", "stall: 0.6",
                 "w.yaml:3: plan.time: expected no accelerator or stall share without accelerator nodes"},
        BadValue{"ipu-e2000: 1", "ipu-e2000: 0.9",
                 "w.yaml:4: plan.cpu: expected shares that sum to 1, got 0.9"},
        BadValue{"ipu-e2000: 1", "gflops: 1",
                 "w.yaml:4: plan.cpu.gflops: expected a yardstick of the baseline's n2d-milan"},
        BadValue{"  cpu: {ipu-e2000: 1}\n", "",
                 "plan.cpu: expected the yardsticks of the cpu share, got nothing"},
        BadValue{
            "lite-compute: {", "lite-computer: {",
            "w.yaml:7: plan.baseline.lite-computer: expected fabric or a node kind (accelerator, storage, "
            "lite-compute)"},
        BadValue{"lite-compute: {", "storage: {",
                 "w.yaml:5: plan.baseline: expected lite-compute or accelerator nodes, got neither"},
        BadValue{"node: n2d-milan, nodes", "node: milan, nodes",
                 "expected a node of the catalogue, got \"milan\""},
        BadValue{"nodes: 2}", "nodes: 0}",
                 "w.yaml:7: plan.baseline.lite-compute.nodes: expected a whole number from 1"},
        BadValue{"port_gbps: 100", "port_gbps: 100, oversubscription: 0.5",
                 "w.yaml:6: plan.baseline.fabric.oversubscription: expected a number from 1"},
        BadValue{"slowdown: 1.5", "slowdown: 0", "w.yaml:9: plan.limits.slowdown: expected a number"},
        BadValue{"slowdown: 1.5", "slowdon: 1.5",
                 "w.yaml:9: plan.limits: unknown key \"slowdon\", did you mean slowdown?"},
        BadValue{"slowdown: 1.5", "slowdown: 1.5, storage_tb: 3",
                 "w.yaml:9: plan.limits: expected storage nodes in the baseline"},
        BadValue{"[n2d-milan, ipu-e2000]", "[n2d-milan, n2d-milan]",
                 "w.yaml:10: plan.search.nodes[#2]: duplicate node"},
        BadValue{"most_nodes: 16", "most_nodes: 16, ports_gbps: [200, 100]",
                 "expected more than the number before it"},
        BadValue{"most_nodes: 16", "most_nodes: 16, ports_gbps: []",
                 "expected at least one number, got an empty list"},
        BadValue{"  name: small\n", "  name: small\n  model: x\n",
                 "plan.model: expected one of models, got \"x\""},
        BadValue{"  name: small\n", "  name: small\n  catalogues: [nowhere.yaml]\n",
                 "w.yaml:3: plan.catalogues[#1]: expected a catalogue, got nowhere.yaml: expected a readable "
                 "file"},
        BadValue{"plan:\n", "plan: [\n", "expected YAML"}));

TEST(WorkloadRefusal, AllProblemsAreToldAtOnceByLine) {
  std::string text = With(kWorkload, "name: small", "name: 'not a name'");
  text = With(text, "nodes: 2}", "nodes: two}");
  const std::string problem = WorkloadProblem(text);
  EXPECT_THAT(problem, testing::StartsWith("w.yaml:2: plan.name: expected a name"));
  EXPECT_THAT(problem, HasSubstr("\nw.yaml:7: plan.baseline.lite-compute.nodes: expected"));
}

TEST(WorkloadRefusal, ABaselineMustHaveTheSlotsForItsDevices) {
  EXPECT_THAT(
      WorkloadProblem(
          "plan:\n  name: one\n  time: {accelerator: 1}\n  baseline:\n    fabric: {port_gbps: 100}\n"
          "    accelerator: {node: n2d-milan, nodes: 1, device: paper-accelerator, devices_per_node: 9}\n"),
      HasSubstr(
          "w.yaml:6: plan.baseline.accelerator.devices_per_node: expected at most the 8 device_slots of "
          "n2d-milan, got 9"));
}

TEST(WorkloadRefusal, AllReduceNeedsNodesToReduceBetween) {
  EXPECT_THAT(
      WorkloadProblem(
          "plan:\n  name: one\n  time: {accelerator: 0.8, stall: 0.2}\n  all_reduce: 1\n"
          "  baseline:\n    fabric: {port_gbps: 100}\n"
          "    accelerator: {node: n2d-milan, nodes: 1, device: paper-accelerator, devices_per_node: 4}\n"),
      HasSubstr("w.yaml:4: plan.all_reduce: expected at least 2 accelerator nodes"));
}

}  // namespace
}  // namespace spillway::planner

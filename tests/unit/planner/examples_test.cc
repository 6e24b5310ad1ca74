// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <array>
#include <filesystem>

#include "planner/search.h"
#include "text.h"

namespace spillway::planner {
namespace {

TEST(PlanExamples, AreTakenAsTheyAre) {
  int workloads = 0;
  for (const auto& entry : std::filesystem::directory_iterator(SPILLWAY_EXAMPLES "/plan")) {
    if (entry.path().extension() != ".yaml" || entry.path().stem() == "catalogue") continue;
    workloads++;
    const auto input = LoadWorkload(entry.path().string());
    ASSERT_TRUE(input) << input.error().message;
    EXPECT_EQ(input->workload.name, entry.path().stem().string());
  }
  EXPECT_EQ(workloads, 5);
}

TEST(PlanExamples, TheShippedCatalogueIsTheFile) {
  const auto file = LoadCatalogue(SPILLWAY_EXAMPLES "/plan/catalogue.yaml");
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_EQ(*file, ShippedCatalogue());
}

TEST(PlanExamples, HaveAnAnswerAmongAMillionCandidates) {
  for (const char* name : {"bigquery", "llm-training"}) {
    const PlanInput input = Example(name);
    const ClusterModel model(input);
    const Answer answer = Search(model, {});
    EXPECT_GE(answer.candidates, 1'000'000u) << name;
    ASSERT_TRUE(answer.best) << name;
    const Evaluation before = model.Evaluate(input.workload.baseline);
    EXPECT_LT(answer.best->objective, before.CostUsd()) << name;
    EXPECT_TRUE(model.Evaluate(answer.best->mix).Feasible()) << name;
  }
}

TEST(PlanExamples, EveryKindOfNodeIsPlannedSomewhere) {
  std::array<bool, kNodeKinds.size()> seen{};
  for (const char* name : {"bigquery", "llm-training", "gnn-training", "inference", "dns"}) {
    const PlanInput input = Example(name);
    const ClusterModel model(input);
    const Answer answer = Search(model, {});
    ASSERT_TRUE(answer.best) << name;
    for (const Group& group : answer.best->mix.groups) seen[static_cast<size_t>(group.kind)] = true;
  }
  for (NodeKind kind : kNodeKinds) EXPECT_TRUE(seen[static_cast<size_t>(kind)]) << ToString(kind);
}

}  // namespace
}  // namespace spillway::planner

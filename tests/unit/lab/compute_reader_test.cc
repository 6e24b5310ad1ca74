// SPDX-License-Identifier: Apache-2.0
#include "lab/testbed/spec_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace spillway::lab {
namespace {

using testing::HasSubstr;

// What a testbed with one unit says, whose `runs` is this.
std::pair<UnitSpec, std::string> Read(const std::string& runs) {
  yaml::Problems problems("lab.yaml");
  const TestbedSpec spec = ReadTestbed(
      problems, {"", 1,
                 YAML::Load("name: t\nservices: [{name: work, ports: [udp/7000]}]\nservers:\n  - name: "
                            "s1\n    units:\n      - {name: cpu, runs: " +
                            runs + "}\n")});
  return {spec.servers.empty() || spec.servers[0].units.empty() ? UnitSpec{} : spec.servers[0].units[0],
          problems.none() ? "" : problems.ToError().message};
}

TEST(ComputeFile, FillsEverySetting) {
  const auto [synthetic, no_problem] = Read("{synthetic: {workers: 10, gflop: 2.5}}");
  EXPECT_EQ(no_problem, "");
  EXPECT_EQ(synthetic.runs, Workload::kSynthetic);
  EXPECT_EQ(synthetic.synthetic, (Synthetic{10, 2.5}));
  EXPECT_EQ(WorkersOf(synthetic), 10u);

  const auto [vgg16, none_either] = Read("{vgg16: {workers: 4, size: 64, precision: bf16}}");
  EXPECT_EQ(none_either, "");
  EXPECT_EQ(vgg16.runs, Workload::kVgg16);
  EXPECT_EQ(vgg16.vgg16, (Vgg16{4, 64, "bf16"}));
  EXPECT_EQ(WorkersOf(vgg16), 4u);

  const auto [knn, nor_here] = Read("{knn: {workers: 3, vectors: 500, dimensions: 8, neighbours: 2}}");
  EXPECT_EQ(nor_here, "");
  EXPECT_EQ(knn.runs, Workload::kKnn);
  EXPECT_EQ(knn.knn, (Knn{3, 500, 8, 2}));
  EXPECT_EQ(WorkersOf(knn), 3u);
}

TEST(ComputeFile, LeavesWorkingDefaults) {
  EXPECT_EQ(Read("{vgg16: {}}").first.vgg16, (Vgg16{1, 224, "f32"}));
  EXPECT_EQ(Read("{knn: {}}").second, "");
}

TEST(ComputeFile, WhatIsOutOfRangeIsToldWithItsLineAndKey) {
  const auto problem = [](const std::string& runs) { return Read(runs).second; };
  EXPECT_THAT(problem("{synthetic: {workers: 2}}"),
              HasSubstr("lab.yaml:6: servers[s1].units[cpu].runs.synthetic"));
  EXPECT_THAT(problem("{synthetic: {workers: 2}}"), HasSubstr("gflop"));
  EXPECT_THAT(problem("{synthetic: {gflop: 0}}"),
              HasSubstr("lab.yaml:6: servers[s1].units[cpu].runs.synthetic.gflop"));
  EXPECT_THAT(problem("{synthetic: {gflop: 1, workers: 0}}"), HasSubstr("runs.synthetic.workers: expected"));
  EXPECT_THAT(problem("{synthetic: {gflop: 1, size: 3}}"), HasSubstr("unknown key \"size\""));
  EXPECT_THAT(problem("{vgg16: {size: 50}}"), HasSubstr("runs.vgg16.size: expected a multiple of 32, got"));
  EXPECT_THAT(problem("{vgg16: {size: 4096}}"), HasSubstr("runs.vgg16.size: expected"));
  EXPECT_THAT(problem("{vgg16: {precision: f16}}"),
              HasSubstr("runs.vgg16.precision: expected one of f32, bf16"));
  EXPECT_THAT(problem("{vgg16: {workers: 1025}}"), HasSubstr("runs.vgg16.workers: expected"));
  EXPECT_THAT(problem("{knn: {vectors: 0}}"), HasSubstr("runs.knn.vectors: expected"));
  EXPECT_THAT(problem("{knn: {dimensions: 5000}}"), HasSubstr("runs.knn.dimensions: expected"));
  EXPECT_THAT(problem("{knn: {vectors: 5, neighbours: 6}}"),
              HasSubstr("runs.knn.neighbours: expected at most"));
  EXPECT_THAT(problem("{knn: {vectors: 100000000, dimensions: 100}}"),
              HasSubstr("runs.knn.vectors: expected vectors"));
}

TEST(ComputeFile, AUnitRunsOneThing) {
  EXPECT_THAT(Read("{knn: {}, vgg16: {}}").second, HasSubstr("runs: expected one key"));
  EXPECT_THAT(Read("vgg16").second, HasSubstr("{vgg16: {...}}"));
}

}  // namespace
}  // namespace spillway::lab

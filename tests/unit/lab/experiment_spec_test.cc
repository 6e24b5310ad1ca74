// SPDX-License-Identifier: Apache-2.0
#include "lab/experiment/experiment_spec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

namespace spillway::lab {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// A file with one unit that runs `runs` and an experiment with `more` keys.
Result<ExperimentSpec> Load(const std::string& runs, const std::string& more, bool quick = false,
                            const std::string& mode = "dsr-l2") {
  const std::string path =
      testing::TempDir() + testing::UnitTest::GetInstance()->current_test_info()->name() + ".yaml";
  std::ofstream(path) << "testbed:\n  name: t\n  services:\n    - {name: dns, ports: [udp/53], mode: " << mode
                      << "}\n"
                         "  servers:\n    - name: s1\n      units:\n        - {name: cpu, runs: "
                      << runs
                      << "}\n"
                         "experiment:\n  name: e\n  service: dns\n  load_pct: [50, 90]\n"
                         "  policies: [{name: host, unit_policy: host-only}]\n"
                      << more;
  return LoadExperiment(path, quick);
}

constexpr const char* kEmulated = "{emulated: {workers: 2, service: 1ms}}";

TEST(ExperimentFile, TheClientIsTheOneThatSpeaksToTheUnits) {
  auto emulated = Load(kEmulated, "");
  ASSERT_TRUE(emulated) << emulated.error().message;
  EXPECT_EQ(emulated->client, LoadClient::kSpillwayLoad);
  auto computing = Load("{knn: {}}", "");
  ASSERT_TRUE(computing) << computing.error().message;
  EXPECT_EQ(computing->client, LoadClient::kSpillwayLoad);
  auto knot = Load("knot", "");
  ASSERT_TRUE(knot) << knot.error().message;
  EXPECT_EQ(knot->client, LoadClient::kDnsperf);
}

TEST(ExperimentFile, AClientThatTheUnitsDoNotUnderstandIsRefused) {
  auto spec = Load(kEmulated, "  client: dnsperf\n");
  ASSERT_FALSE(spec);
  EXPECT_THAT(spec.error().message,
              HasSubstr("client: expected spillway-load, which is what speaks to s1-cpu"));
}

TEST(ExperimentFile, NginxIsNotPredicted) {
  const auto spec = Load("nginx", "  predict: true\n");
  ASSERT_FALSE(spec);
  EXPECT_THAT(spec.error().message, HasSubstr("predict: expected units other than nginx"));
  EXPECT_TRUE(Load("nginx", ""));
}

TEST(ExperimentFile, BehindNatOnlyUnitsThatNeedNoMeasuringArePredicted) {
  auto spec = Load("knot", "  predict: true\n", false, "nat");
  ASSERT_FALSE(spec);
  EXPECT_THAT(spec.error().message, HasSubstr("predict: expected another mode than nat"));
  EXPECT_TRUE(Load("knot", "", false, "nat"));
  EXPECT_TRUE(Load(kEmulated, "  predict: true\n", false, "nat"));
}

TEST(ExperimentFile, ArrivalsAreThoseThatTheClientHas) {
  EXPECT_EQ(Load("knot", "")->arrivals, ArrivalProcess::kConstant);
  EXPECT_EQ(Load(kEmulated, "")->arrivals, ArrivalProcess::kPoisson);
  EXPECT_EQ(Load(kEmulated, "  arrivals: bursty\n")->arrivals, ArrivalProcess::kBursty);
  EXPECT_TRUE(Load("knot", "  arrivals: constant\n"));
  auto refused = Load("knot", "  arrivals: poisson\n");
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("arrivals: expected constant: dnsperf"));
  EXPECT_THAT(Load(kEmulated, "  arrivals: sometimes\n").error().message,
              HasSubstr("constant, poisson, bursty"));
  EXPECT_TRUE(Load(kEmulated, "  arrivals: bursty\n  predict: true\n"));
}

ExperimentSpec Overridden(const Overrides& overrides, std::string& refusal) {
  auto spec = Load(kEmulated, "");
  EXPECT_TRUE(spec);
  const auto good = Override(overrides, *spec);
  refusal = good ? "" : good.error().message;
  return *spec;
}

TEST(Overrides, PoliciesComeByTheirUnitPolicyOrWithAServerPolicy) {
  std::string refusal;
  const ExperimentSpec spec =
      Overridden({.policies = {"wrr", "p2c+headroom"}, .baseline = "p2c+headroom"}, refusal);
  EXPECT_EQ(refusal, "");
  ASSERT_EQ(spec.policies.size(), 2u);
  EXPECT_EQ(spec.policies[0].server_policy, SPW_SERVER_MAGLEV) << "the service's";
  EXPECT_EQ(spec.policies[1].server_policy, SPW_SERVER_P2C);
  EXPECT_EQ(spec.policies[1].unit_policy, SPW_UNIT_HEADROOM);
  EXPECT_EQ(spec.baseline, 1u);
}

TEST(Overrides, PredictIsTheCommandLinesAndRefusedWhereUnitsCannotBeMeasuredAlone) {
  std::string refusal;
  EXPECT_TRUE(Overridden({.predict = true}, refusal).predict);
  EXPECT_EQ(refusal, "");
  auto file_predicts = Load(kEmulated, "  predict: true\n");
  ASSERT_TRUE(file_predicts && Override({}, *file_predicts));
  EXPECT_FALSE(file_predicts->predict) << "compare asks for it, or has none";
  auto nat = Load("knot", "", false, "nat");
  ASSERT_TRUE(nat);
  const auto refused = Override({.predict = true}, *nat);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("--predict: expected another mode than nat"));
}

TEST(Overrides, ACapacityTakesThePlaceOfTheFilesOrOfTheSearch) {
  std::string refusal;
  EXPECT_FALSE(Overridden({}, refusal).capacity_rps);
  EXPECT_EQ(Overridden({.capacity_rps = 900}, refusal).capacity_rps, 900);
  auto stated = Load(kEmulated, "  capacity_rps: 1000\n");
  ASSERT_TRUE(stated && Override({.capacity_rps = 900}, *stated));
  EXPECT_EQ(stated->capacity_rps, 900);
}

TEST(Overrides, LoadsAreSorted) {
  std::string refusal;
  EXPECT_THAT(Overridden({.load_pct = {80, 40}}, refusal).load_pct, ElementsAre(40, 80));
}

TEST(Overrides, WhatIsNoPolicyIsRefused) {
  std::string refusal;
  (void)Overridden({.policies = {"best"}}, refusal);
  EXPECT_THAT(refusal, HasSubstr("--policies: best: expected UNIT_POLICY or SERVER_POLICY+UNIT_POLICY"));
  (void)Overridden({.policies = {"fastest+wrr"}}, refusal);
  EXPECT_THAT(refusal, HasSubstr("--policies: fastest+wrr"));
  (void)Overridden({.policies = {"wrr", "wrr"}}, refusal);
  EXPECT_EQ(refusal, "--policies: duplicate policy wrr");
  (void)Overridden({.policies = {"wrr", "jsq"}, .baseline = "ecmp"}, refusal);
  EXPECT_EQ(refusal, "--baseline: expected one of wrr, jsq, got ecmp");
}

// The same experiment with one policy more, which has these agent settings.
Result<ExperimentSpec> LoadWithAgent(const std::string& settings,
                                     const std::string& testbed_agent = "{period: 7ms}") {
  const std::string path = testing::TempDir() + "policy_agent.yaml";
  std::ofstream(path) << "testbed:\n  name: t\n  agent: " << testbed_agent
                      << "\n  services: [{name: w, ports: [udp/7000], mode: dsr-l2}]\n"
                         "  servers: [{name: s1, units: [{name: cpu, runs: {emulated: {service: 1ms}}}]}]\n"
                         "experiment:\n  name: e\n  service: w\n  load_pct: [50]\n  policies:\n"
                         "    - {name: host, unit_policy: host-only}\n"
                         "    - {name: p4mite, unit_policy: p4mite, agent: "
                      << settings << "}\n";
  return LoadExperiment(path, false);
}

TEST(ExperimentFile, APolicyMayHaveAgentsOfItsOwn) {
  const auto spec =
      LoadWithAgent("{threshold: 300ms, second_report_after: 5ms, mode: on-threshold, release_ratio: 0.8}");
  ASSERT_TRUE(spec) << spec.error().message;
  EXPECT_FALSE(spec->policies[0].agent);
  EXPECT_EQ(spec->policies[0].AgentOf(spec->testbed), spec->testbed.agent);
  const AgentSpec& agent = spec->policies[1].AgentOf(spec->testbed);
  EXPECT_EQ(agent.threshold, Micros(300'000));
  EXPECT_EQ(agent.second_report_after, Micros(5000));
  EXPECT_EQ(agent.mode, "on-threshold");
  EXPECT_EQ(agent.release_ratio, 0.8);
  EXPECT_EQ(agent.period, Micros(7000)) << "the testbed's, where the policy has none";
}

TEST(ExperimentFile, AgentSettingsThatNoAgentTakesAreRefused) {
  const auto error = [](const std::string& settings, const std::string& testbed_agent = "{}") {
    const auto spec = LoadWithAgent(settings, testbed_agent);
    return spec ? "" : spec.error().message;
  };
  EXPECT_THAT(error("{threshold: fast}"),
              HasSubstr("policy_agent.yaml:12: experiment.policies[p4mite].agent.threshold: "));
  EXPECT_THAT(error("{threshold: 0us}"), HasSubstr("agent.threshold: expected"));
  EXPECT_THAT(error("{threshold: 2s}", "{timeout: 1s}"), HasSubstr("agent.threshold: expected less than"));
  EXPECT_THAT(error("{mode: sometimes}"), HasSubstr("agent.mode: expected one of periodic, on-threshold"));
  EXPECT_THAT(error("{timeout: 1s}"), HasSubstr("agent: unknown key \"timeout\""));
  EXPECT_THAT(error("{threshold: 5ms}", "{run: false}"),
              HasSubstr("agent: allowed only if the testbed runs agents"));
}

TEST(ExperimentFile, QuickReplacesTheExtentOnlyWhenAsked) {
  const std::string quick = "  rounds: 4\n  quick: {load_pct: [70], rounds: 1, capacity_within_pct: 20}\n";
  auto whole = Load("knot", quick), shorter = Load("knot", quick, true);
  ASSERT_TRUE(whole && shorter);
  EXPECT_THAT(whole->load_pct, ElementsAre(50, 90));
  EXPECT_EQ(whole->rounds, 4);
  EXPECT_THAT(shorter->load_pct, ElementsAre(70));
  EXPECT_EQ(shorter->rounds, 1);
  EXPECT_EQ(whole->capacity_within_pct, 4);
  EXPECT_EQ(shorter->capacity_within_pct, 20);
}

TEST(ExperimentFile, FurtherLoadsAreTheFilesAndNotThoseOfACommandLine) {
  auto spec = Load("knot", "  quick: {further: 3}\n", true);
  ASSERT_TRUE(spec);
  EXPECT_EQ(spec->further, 3);
  ASSERT_TRUE(Override({.load_pct = {40, 60}}, *spec));
  EXPECT_EQ(spec->further, 0);
  auto refused = Load("{synthetic: {gflop: 0.5}}", "  grow: work\n  further: 2\n");
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("further: expected grow: rate"));
}

// One policy in the switch and one on the NIC, of which the server may have none.
Result<ExperimentSpec> LoadBothPlaces(const std::string& kind) {
  const std::string path = testing::TempDir() + "both_places.yaml";
  std::ofstream(path) << "testbed:\n  name: t\n  services: [{name: w, ports: [udp/7000], mode: nat}]\n"
                         "  servers:\n    - name: s1\n      units:\n        - {name: nic, kind: "
                      << kind << ", runs: " << kEmulated
                      << "}\nexperiment:\n  name: e\n  service: w\n  load_pct: [50]\n  policies:\n"
                         "    - {name: there, unit_policy: jsq}\n"
                         "    - {name: here, unit_policy: jsq, balancer: nic}\n";
  return LoadExperiment(path, false);
}

TEST(ExperimentFile, APolicySaysWhereItBalances) {
  const auto spec = LoadBothPlaces("smartnic");
  ASSERT_TRUE(spec) << spec.error().message;
  EXPECT_EQ(spec->policies[0].balancer, BalancerPlace::kSwitch);
  EXPECT_EQ(spec->policies[1].balancer, BalancerPlace::kNic);
  EXPECT_TRUE(spec->testbed.nic_balancers) << "one must stand ready";
  EXPECT_EQ(spec->testbed.balancer, BalancerPlace::kSwitch);
  const auto without = LoadBothPlaces("gpu");
  ASSERT_FALSE(without);
  EXPECT_THAT(without.error().message, HasSubstr("a unit of kind smartnic in s1"));
}

TEST(ExperimentFile, LargerRequestsTakeUnitsWhoseWorkCanBeSet) {
  auto spec = Load("{synthetic: {gflop: 0.5}}", "  grow: work\n  predict: true\n");
  ASSERT_TRUE(spec) << spec.error().message;
  EXPECT_TRUE(spec->predict);
  EXPECT_DOUBLE_EQ(spec->WorkAt(50), 1);
  EXPECT_DOUBLE_EQ(spec->WorkAt(90), 1.8);
  EXPECT_DOUBLE_EQ(spec->RatePctAt(90), 50) << "the first level's rate";
  EXPECT_DOUBLE_EQ(WithWork(spec->testbed, 3).servers[0].units[0].synthetic.gflop, 1.5);
  auto refused = Load("{knn: {}}", "  grow: work\n");
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("grow: expected synthetic or emulated units"));
  auto misspelt = Load(kEmulated, "  grow: size\n");
  ASSERT_FALSE(misspelt);
  EXPECT_THAT(misspelt.error().message, HasSubstr("expected one of rate, work"));
}

TEST(ExperimentFile, ByRateRequestsStayAsTheyAre) {
  auto spec = Load(kEmulated, "");
  ASSERT_TRUE(spec);
  EXPECT_DOUBLE_EQ(spec->WorkAt(90), 1);
  EXPECT_DOUBLE_EQ(spec->RatePctAt(90), 90);
  EXPECT_FALSE(spec->predict);
}

TEST(ExperimentFile, APredictionMayHaveAStatedCapacity) {
  auto spec = Load("knot", "  predict: true\n  capacity_rps: 1000\n");
  ASSERT_TRUE(spec) << spec.error().message;
  EXPECT_EQ(spec->capacity_rps, 1000);
}

TEST(ExperimentFile, CapacityIsLookedForUnderThePolicyThatItSays) {
  EXPECT_EQ(Load("knot", "")->capacity_under, SPW_UNIT_WRR);
  EXPECT_EQ(Load("knot", "  capacity_under: host-only\n")->capacity_under, SPW_UNIT_HOST_ONLY);
  const auto wrong = Load("knot", "  capacity_under: random\n");
  ASSERT_FALSE(wrong);
  EXPECT_THAT(wrong.error().message, HasSubstr("experiment.capacity_under"));
  const auto both = Load("knot", "  capacity_under: host-only\n  capacity_rps: 100\n");
  ASSERT_FALSE(both);
  EXPECT_THAT(both.error().message, HasSubstr("capacity_under: not allowed with capacity_rps"));
}

}  // namespace
}  // namespace spillway::lab

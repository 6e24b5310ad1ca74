// SPDX-License-Identifier: Apache-2.0
// Units from a pool file, and arrivals from a trace: the files that a scenario names.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>

#include "scenario_text.h"
#include "sim/scenario/readers.h"

namespace spillway::sim {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const char* kPool =
    "switch: {interfaces: [eth0], report: {address: 192.0.2.1}}\n"
    "services:\n"
    "  - {name: dns, vip: 203.0.113.53, ports: [udp/53], pool: rack1, server_policy: p2c, unit_policy: wrr}\n"
    "  - {name: web, vip: 203.0.113.80, ports: [tcp/80], pool: rack1}\n"
    "pools:\n"
    "  rack1:\n"
    "    servers:\n"
    "      - {name: s1, units: [{name: cpu, kind: cpu, address: 10.0.1.1, capacity: 5},"
    " {name: nic, kind: smartnic, address: 10.0.1.2}]}\n"
    "      - {name: s2, units: [{name: cpu, kind: cpu, address: 10.0.2.1, capacity: 5},"
    " {name: nic, kind: smartnic, address: 10.0.2.2}]}\n"
    "      - {name: s3, units: [{name: cpu, kind: cpu, address: 10.0.3.1, capacity: 5},"
    " {name: nic, kind: smartnic, address: 10.0.3.2, drain: true}]}\n";

const std::string kScenario =
    "sim:\n  name: p\n  apps:\n    - name: dns\n      pool: {file: pool.yaml, service: dns}\n"
    "      profiles:\n"
    "        cpu: {service: 436us, unloaded: 3ms}\n"
    "        smartnic: {workers: 2, service: 2182us}\n"
    "  load_pct: [50]\n  policies: [{name: ours, from: pool}]\n";

class PoolUnits : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "spillway-sim-XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
    Write("pool.yaml", kPool);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  void Write(const std::string& name, const std::string& text) {
    std::ofstream(folder_ + "/" + name) << text;
  }
  std::string File() const { return folder_ + "/s.yaml"; }
  std::string Said(const std::string& text) const { return Problem(text, File()); }

  std::string folder_;
};

TEST_F(PoolUnits, AreTheFilesWithSpeedsByKind) {
  const Scenario s = Parse(kScenario, File());
  const auto& groups = s.apps[0].groups;
  ASSERT_EQ(groups.size(), 2u) << "equal servers are one group";
  EXPECT_EQ(groups[0].count, 2u);
  ASSERT_EQ(groups[0].units.size(), 2u);
  EXPECT_EQ(groups[0].units[0].name, "cpu");
  EXPECT_EQ(groups[0].units[0].capacity, 5) << "the file's";
  EXPECT_EQ(groups[0].units[0].unloaded(), std::chrono::milliseconds(3));
  EXPECT_EQ(groups[0].units[1].kind, SPW_KIND_SMARTNIC);
  EXPECT_EQ(groups[0].units[1].workers, 2u);
  EXPECT_EQ(groups[1].units.size(), 1u) << "drained units take nothing";
}

TEST_F(PoolUnits, PoliciesCanBeTheServices) {
  const PolicyChoice policy = Parse(kScenario, File()).policies[0];
  EXPECT_EQ(policy.server_policy, SPW_SERVER_P2C);
  EXPECT_EQ(policy.unit_policy, SPW_UNIT_WRR);
}

TEST_F(PoolUnits, AUnitCanDifferFromItsKind) {
  const auto groups =
      Parse(With(kScenario, "        smartnic", "        rack1/s2/nic: {service: 9ms}\n        smartnic"),
            File())
          .apps[0]
          .groups;
  ASSERT_EQ(groups.size(), 3u);
  EXPECT_EQ(groups[1].units[1].service, std::chrono::milliseconds(9));
}

TEST_F(PoolUnits, FailuresNameServersAsTheFileDoes) {
  const App app = Parse(With(kScenario, "      profiles",
                             "      failures: [{server: s2, unit: nic, at: 1s, until: 2s}]\n      profiles"),
                        File())
                      .apps[0];
  EXPECT_EQ(app.failures[0].server, 1u);
  EXPECT_EQ(app.failures[0].unit, 1u);
}

TEST_F(PoolUnits, WhatIsWrongIsSaid) {
  EXPECT_THAT(Said(With(kScenario, ", service: dns", "")),
              HasSubstr("s.yaml:5: sim.apps[dns].pool.service: expected one of the file's 2 services"));
  EXPECT_THAT(Said(With(kScenario, "service: dns", "service: ftp")),
              HasSubstr("pool.service: expected a service of the pool file, got \"ftp\""));
  EXPECT_THAT(
      Said(With(kScenario, "file: pool.yaml", "file: none.yaml")),
      HasSubstr("pool.file: expected a pool file, got " + folder_ + "/none.yaml: expected a readable file"));
  EXPECT_THAT(Said(With(kScenario, "        smartnic: {workers: 2, service: 2182us}\n", "")),
              HasSubstr("profiles: expected a profile for kind smartnic, which rack1/s1/nic is, got none"));
  EXPECT_THAT(Said(With(kScenario, "smartnic:", "smartnics:")),
              HasSubstr("expected a kind, or a unit of the service's pool, got \"smartnics\""));
  EXPECT_THAT(Said(With(kScenario, "{workers: 2, service: 2182us}", "{workers: 2}")),
              HasSubstr("s.yaml:8: sim.apps[dns].profiles.smartnic.service: expected the mean service time"));
  EXPECT_THAT(Said(With(kScenario, "smartnic:", "cpu:")), HasSubstr("profiles.cpu: duplicate key"));
}

TEST_F(PoolUnits, APoolWithMistakesIsNamedWithItsFirst) {
  Write("pool.yaml", With(kPool, "capacity: 5", "capacity: 0"));
  EXPECT_THAT(Said(kScenario),
              HasSubstr("got " + folder_ + "/pool.yaml:8: pools.rack1.servers[s1].units[cpu]"));
}

TEST_F(PoolUnits, DifferingPoliciesOfTwoPoolsAreNoPolicy) {
  Write("other.yaml", With(kPool, "unit_policy: wrr", "unit_policy: ecmp"));
  const std::string other = With(
      kScenario, "  load_pct",
      "    - name: dns2\n      pool: {file: other.yaml, service: dns}\n      profiles: {cpu: {service: 1ms}, "
      "smartnic: {service: 1ms}}\n  load_pct");
  EXPECT_THAT(Said(other),
              HasSubstr("from: expected pool files whose services agree, got others for dns and dns2"));
}

TEST_F(PoolUnits, ATraceIsReadBesideTheScenario) {
  Write("burst.csv", "# seconds\n0.5\n\n0.75\r\n2\n");
  const Scenario s =
      Parse(With(kScenario, "  load_pct", "  arrivals: [{trace: burst.csv}]\n  load_pct"), File());
  EXPECT_EQ(s.arrivals[0].kind, ArrivalKind::kTrace);
  EXPECT_EQ(s.arrivals[0].name, "burst");
  EXPECT_THAT(s.arrivals[0].at, ElementsAre(0.5, 0.75, 2));
}

TEST(Trace, MistakesAreNamedByLine) {
  const auto said = [](const std::string& text) {
    const auto times = ParseTrace(text, "t.csv");
    return times ? "accepted" : times.error().message;
  };
  EXPECT_EQ(said("1\n2\n"), "accepted");
  EXPECT_EQ(said("1\n2x\n"), "t.csv:2: expected a time in seconds, 1 or later, got \"2x\"");
  EXPECT_EQ(said("3\n2\n"), "t.csv:2: expected a time in seconds, 3 or later, got \"2\"");
  EXPECT_EQ(said("-1\n2\n"), "t.csv:1: expected a time in seconds, got \"-1\"");
  EXPECT_EQ(said("nan\n2\n"), "t.csv:1: expected a time in seconds, got \"nan\"");
  EXPECT_EQ(said("1\n1\n"), "t.csv:2: expected two different times at least, got 2");
  EXPECT_EQ(said(""), "t.csv:1: expected two different times at least, got 0");
}

}  // namespace
}  // namespace spillway::sim

// SPDX-License-Identifier: Apache-2.0
// What is refused, and with which words. Lines of kText are numbered in scenario_text.h.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "scenario_text.h"

namespace spillway::sim {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

TEST(ScenarioRefusal, NothingIsWrongWithTheBaseText) { EXPECT_EQ(Problem(kText), "accepted"); }

TEST(ScenarioRefusal, NamesFileLineKeyAndExpectation) {
  EXPECT_EQ(Problem(With(kText, "436us", "436")),
            "s.yaml:6: sim.apps[dns].units[cpu].service: expected a time from 100ns to 1h, such as 1ms, got "
            "\"436\"");
  EXPECT_EQ(Problem(With(kText, "threshold", "treshold")),
            "s.yaml:8: sim.apps[dns]: unknown key \"treshold\", did you mean threshold?");
}

TEST(ScenarioRefusal, AllProblemsAreToldAtOnceByLine) {
  std::string text = With(kText, "name: small", "name: 'not a name'");
  text = With(text, "[50, 80]", "[80, 50]");
  EXPECT_THAT(Problem(text), AllOf(StartsWith("s.yaml:2: sim.name: expected a name"),
                                   HasSubstr("\ns.yaml:9: sim.load_pct[#2]: expected more than the 80")));
}

TEST(ScenarioRefusal, AnUnknownKindOfArrivalsIsToldOnce) {
  EXPECT_EQ(Problem(WithLine("arrivals: [{burst: 5}]")),
            "s.yaml:12: sim.arrivals[#1]: unknown key \"burst\", known are trace, onoff, jump, overload");
}

TEST(ScenarioDoubts, LoadsThatLookLikeShares) {
  const auto doubts = [](const std::string& text) {
    const auto scenario = ParseScenario(text, "s.yaml");
    return scenario ? Doubts(*scenario, "s.yaml") : std::vector<std::string>{scenario.error().message};
  };
  EXPECT_THAT(doubts(kText), testing::IsEmpty());
  EXPECT_THAT(doubts(With(kText, "[50, 80]", "[0.4, 0.6]")),
              testing::ElementsAre("s.yaml: sim.load_pct is in percent: 0.4 is 0.4 %, did you mean 40?"));
  EXPECT_THAT(doubts(With(kText, "[50, 80]", "[0.5, 1]")), testing::SizeIs(1));
  EXPECT_THAT(doubts(With(kText, "[50, 80]", "[1]")), testing::IsEmpty());
  EXPECT_THAT(doubts(With(kText, "[50, 80]", "[0.5, 5]")), testing::IsEmpty());
  EXPECT_THAT(doubts(With(kText, "load_pct: [50, 80]", "rps: [0.5]")), testing::IsEmpty());
  EXPECT_THAT(
      doubts(WithAppKey("load_pct: [0.3]")),
      testing::ElementsAre("s.yaml: sim.apps[dns].load_pct is in percent: 0.3 is 0.3 %, did you mean 30?"));
}

TEST(ScenarioRefusal, MissingKeys) {
  EXPECT_EQ(Problem(""), "s.yaml:1: expected a map, got nothing");
  EXPECT_EQ(Problem("{}"), "s.yaml:1: sim: expected a map, got nothing");
  EXPECT_THAT(Problem("sim: {}"),
              AllOf(HasSubstr("sim.name: expected a name, got nothing"),
                    HasSubstr("sim.apps: expected a list of apps, got nothing"),
                    HasSubstr("sim: expected one of load_pct, rps and work, got 0 of them"),
                    HasSubstr("sim.policies: expected a list of policies, got nothing")));
}

TEST(ScenarioRefusal, ASecondDocument) {
  EXPECT_EQ(Problem(kText + "---\nsim: {}\n"), "s.yaml:13: expected one document, got another");
}

TEST(ScenarioRefusal, NoYaml) {
  EXPECT_THAT(Problem("sim: [\n"), StartsWith("s.yaml:2: expected YAML, got"));
}

// A piece of the base text, another in its place, and what the message must say.
struct Bad {
  const char *from, *to, *says;
};

void PrintTo(const Bad& bad, std::ostream* out) { *out << bad.from << " -> " << bad.to; }

class BadScenario : public testing::TestWithParam<Bad> {};

TEST_P(BadScenario, IsRefused) {
  const std::string problem = Problem(With(kText, GetParam().from, GetParam().to));
  EXPECT_THAT(problem, AllOf(StartsWith("s.yaml:"), HasSubstr(GetParam().says)));
  EXPECT_EQ(problem.find('\n'), std::string::npos) << "one cause, one line: " << problem;
}

#define UNIT "{name: cpu, kind: cpu, capacity: 5, service: 436us, unloaded: 3ms}"

INSTANTIATE_TEST_SUITE_P(
    Units, BadScenario,
    testing::Values(
        Bad{"name: cpu, ", "", "units[#1].name: expected a name, got nothing"},
        Bad{"name: nic", "name: cpu", "units[cpu].name: duplicate name \"cpu\""},
        Bad{"kind: cpu, ", "", "units[cpu].kind: expected cpu, smartnic"},
        Bad{"kind: cpu", "kind: tpu",
            "kind: expected one of cpu, smartnic, gpu, fpga, ssd, other, got \"tpu\""},
        Bad{"capacity: 5", "capacity: 0", "capacity: expected a number greater than 0"},
        Bad{"capacity: 5", "capacity: 10001",
            "expected capacities that differ by at most 10000 times, got 1 to"},
        Bad{"capacity: 5", "workers: 0", "workers: expected a whole number from 1 to 65535"},
        Bad{"service: 436us, ", "", "units[cpu].service: expected the mean service time, such as 436us"},
        Bad{"436us", "0", "service: expected a time from 100ns to 1h"},
        Bad{"unloaded: 3ms", "unloaded: 400us", "unloaded: expected the service time or more, got \"400us\""},
        Bad{"unloaded: 3ms", "queue_limit: 0", "queue_limit: expected a whole number from 1"},
        Bad{"unloaded: 3ms", "address: 10.0.0.1", "units[cpu]: unknown key \"address\""},
        Bad{"unloaded: 3ms", "cpu_quota: {quota: 1ms}", "cpu_quota.period: expected a time"},
        Bad{"unloaded: 3ms", "cpu_quota: {quota: 0, period: 5ms}",
            "cpu_quota.quota: expected a time from 1us"},
        Bad{"unloaded: 3ms", "stall: {every: 2s, for: 2s}",
            "stall.for: expected less than every, got \"2s\""},
        Bad{"unloaded: 3ms", "pause: {share: 2, for: 1ms}", "pause.share: expected a number from 0 to 1"},
        Bad{"unloaded: 3ms", "neighbour: {every: 1s, for: 1s}", "neighbour.slowdown: expected a number"},
        Bad{"unloaded: 3ms", "drift: {period: 1s, amplitude: 1}",
            "amplitude: expected a number from 0 to 0.95"},
        Bad{"unloaded: 3ms", "cold: {for: 1s, slowdown: 0.5}", "cold.slowdown: expected a number from 1"},
        Bad{"unloaded: 3ms", "fails_fast: {from: 2s, until: 1s, after: 1us}",
            "fails_fast.from: expected less than until, got \"2s\""},
        Bad{"        - " UNIT "\n", "        - " UNIT "\n        - 7\n",
            "units[#2]: expected a map, got \"7\""}));

INSTANTIATE_TEST_SUITE_P(
    Apps, BadScenario,
    testing::Values(
        Bad{"name: dns", "servers: 2", "sim.apps[#1].name: expected a name"},
        Bad{"threshold: 100ms", "threshold: 0", "threshold: expected a time from 1us to 1h"},
        Bad{"threshold: 100ms", "servers: 0", "servers: expected a whole number from 1 to 10000"},
        Bad{"threshold: 100ms", "servers: 10001", "servers: expected a whole number from 1 to 10000"},
        Bad{"threshold: 100ms", "groups: []", "expected one of units, groups and pool, got 2 of them"},
        Bad{"threshold: 100ms", "profiles: {}", "profiles: allowed only with pool"},
        Bad{"threshold: 100ms", "joint_rps: 0", "joint_rps: expected a number from 0.001"},
        Bad{"threshold: 100ms", "joint_rps: many", "joint_rps: expected a number from 0.001"},
        Bad{"threshold: 100ms", "spread: normal", "spread: expected one of lognormal, exponential, bimodal"},
        Bad{"threshold: 100ms", "cv: -1", "cv: expected a number from 0 to 10"},
        Bad{"threshold: 100ms", "cv: 11", "cv: expected a number from 0 to 10"},
        Bad{"threshold: 100ms", "{spread: exponential}", "expected YAML"},
        Bad{"threshold: 100ms", "spread: exponential\n      cv: 1", "cv: allowed only with spread lognormal"},
        Bad{"threshold: 100ms", "heavy_share: 0.1", "heavy_share: allowed only with spread bimodal"},
        Bad{"threshold: 100ms", "spread: bimodal\n      cv: 1", "cv: allowed only with spread lognormal"},
        Bad{"threshold: 100ms", "cold_start: true\n      warm_up: 5",
            "dns].warm_up: not allowed with cold_start"},
        Bad{"threshold: 100ms", "server_policy: best", "dns].server_policy: expected one of"},
        Bad{"threshold: 100ms", "load_pct: [80, 50]", "dns].load_pct[#2]: expected more than the 80"},
        Bad{"threshold: 100ms", "failures: {}", "failures: expected a list of failures, got a map"},
        Bad{"threshold: 100ms", "failures: [{server: 1, unit: nic, at: 1s, until: 2s}]",
            "failures[#1].server: expected a server's number from 0 to 0, got \"1\""},
        Bad{"threshold: 100ms", "failures: [{server: 0, unit: gpu, at: 1s, until: 2s}]",
            "failures[#1].unit: expected a unit of server 0, got \"gpu\""},
        Bad{"threshold: 100ms", "failures: [{server: 0, unit: nic, at: 2s, until: 2s}]",
            "failures[#1].until: expected a time after at, got \"2s\""},
        Bad{"threshold: 100ms", "failures: [{unit: nic, at: 1s, until: 2s}]",
            "server: expected a server's number"},
        Bad{"threshold: 100ms", "failures: [{server: 0, at: 1s, until: 2s}]", "unit: expected a unit's name"},
        Bad{"threshold: 100ms", "failures: [{server: 0, unit: nic, until: 2s}]",
            "at: expected a time of the run"},
        Bad{"threshold: 100ms", "failures: [{server: 0, unit: nic, at: 1s}]",
            "until: expected a time of the run"},
        Bad{"threshold: 100ms", "failures: [{server: 0, unit: nic, at: 1s, until: 2s, noticed_after: -1s}]",
            "noticed_after: expected a time from 0s to 1h"}));

INSTANTIATE_TEST_SUITE_P(
    Extent, BadScenario,
    testing::Values(
        Bad{"load_pct: [50, 80]", "load_pct: []",
            "load_pct: expected at least one number, got an empty list"},
        Bad{"load_pct: [50, 80]", "load_pct: 50", "load_pct: expected a list of numbers, got \"50\""},
        Bad{"load_pct: [50, 80]", "load_pct: [0, 80]", "load_pct[#1]: expected a number from 0.01 to 1000"},
        Bad{"load_pct: [50, 80]", "load_pct: [50, 50]", "load_pct[#2]: expected more than the 50 before it"},
        Bad{"load_pct: [50, 80]", "load_pct: [50]\n  rps: [1]",
            "expected one of load_pct, rps and work, got 2"},
        Bad{"load_pct: [50, 80]", "rps: [0]", "rps[#1]: expected a number from 0.001"},
        Bad{"load_pct: [50, 80]", "work: {rps: 5}", "work.factors: expected a list of factors"},
        Bad{"load_pct: [50, 80]", "work: {factors: [1]}", "work.rps: expected requests per second"},
        Bad{"load_pct: [50, 80]", "work: {rps: 5, factors: [0]}", "work.factors[#1]: expected a number"},
        Bad{"  load_pct", "  arrivals: []\n  load_pct",
            "arrivals: expected a list of poisson, constant, {trace: FILE}"},
        Bad{"  load_pct", "  arrivals: [{onoff: {on: 1ms}}]\n  load_pct",
            "arrivals[#1].onoff.off: expected how long none come"},
        Bad{"  load_pct", "  arrivals: [{jump: {low: 2, every: 1s}}]\n  load_pct",
            "arrivals[#1].jump.low: expected a number from 0.001 to 1"},
        Bad{"  load_pct", "  arrivals: [{overload: {times: 0.5, lasts: 1s}}]\n  load_pct",
            "arrivals[#1].overload.times: expected a number from 1 to 1000"},
        Bad{"      threshold: 100ms\n  load_pct: [50, 80]", "      load_pct: [50]\n  rps: [5]",
            "expected load_pct, as app dns has its own, got rps"},
        Bad{"  load_pct", "  arrivals: [regular]\n  load_pct",
            "arrivals[#1]: expected poisson, constant, {trace: FILE}, {onoff: ...}, {jump: ...} or "
            "{overload: ...}, "
            "got \"regular\""},
        Bad{"  load_pct", "  arrivals: [poisson, poisson]\n  load_pct", "arrivals[#2]: duplicate name"},
        Bad{"  load_pct", "  arrivals: [{}]\n  load_pct",
            "arrivals[#1]: expected one of trace, onoff, jump and overload, got 0"},
        Bad{"  load_pct", "  arrivals: [{trace: no-such.csv}]\n  load_pct",
            "arrivals[#1].trace: expected a trace, got no-such.csv: expected a readable file"},
        Bad{"  load_pct", "  reports: []\n  load_pct", "reports: expected at least one way to report"},
        Bad{"  load_pct", "  reports: [{}, {}]\n  load_pct", "reports[#2]: duplicate name"},
        Bad{"  load_pct", "  reports: [{period: -1ms}]\n  load_pct", "period: expected a time from 0s to 1h"},
        Bad{"  load_pct", "  reports: [{delay: 2h}]\n  load_pct", "delay: expected a time from 0s to 1h"},
        Bad{"  load_pct", "  reports: [{jitter: 1}]\n  load_pct", "jitter: expected a time from 0s to 1h"},
        Bad{"  load_pct", "  reports: [{loss_pct: 101}]\n  load_pct",
            "loss_pct: expected a number from 0 to 100"},
        Bad{"  load_pct", "  reports: [{period: 5ms, check: 2ms}]\n  load_pct",
            "check: expected learned: true and a period beside it"},
        Bad{"  load_pct", "  reports: [{period: 5ms, learned: true, check: 10us}]\n  load_pct",
            "check: expected 0 or 100us and more"},
        Bad{"  load_pct", "  wire: 2s\n  load_pct", "wire: expected a time from 0s to 1s"},
        Bad{"  load_pct", "  requests: 99\n  load_pct", "requests: expected a whole number from 100"},
        Bad{"  load_pct", "  warm_up: -1\n  load_pct", "warm_up: expected a whole number from 0"},
        Bad{"  load_pct", "  switches: 0\n  load_pct", "switches: expected a whole number from 1 to 64"},
        Bad{"  load_pct", "  seed: x\n  load_pct", "seed: expected a whole number from 0"},
        Bad{"  load_pct", "  loss_over_unloaded: 0.5\n  load_pct",
            "loss_over_unloaded: expected a number from 1"},
        Bad{"  load_pct", "  silent_after: 1ms\n  load_pct", "silent_after: expected a time from 10ms"}));

INSTANTIATE_TEST_SUITE_P(
    Policies, BadScenario,
    testing::Values(
        Bad{"- {name: headroom}", "[]", "policies: expected at least one policy"},
        Bad{"{name: headroom}", "{unit_policy: wrr}", "policies[#1].name: expected a name"},
        Bad{"{name: headroom}", "{name: a}\n    - {name: a}", "policies[a].name: duplicate name"},
        Bad{"{name: headroom}", "{name: a, unit_policy: best}", "unit_policy: expected one of p4mite, wrr"},
        Bad{"{name: headroom}", "{name: a, server_policy: rr}",
            "server_policy: expected one of maglev, ecmp"},
        Bad{"{name: headroom}", "{name: a, decider: oracle}", "decider: expected one of switch, omniscient"},
        Bad{"{name: headroom}", "{name: a, units_as_servers: 1}", "units_as_servers: expected true or false"},
        Bad{"{name: headroom}", "{name: a, unit_policy: host-only, units_as_servers: true}",
            "policies[a]: expected host-only without units_as_servers"},
        Bad{"{name: headroom}", "{name: a, threshold: 5ms}",
            "threshold: allowed only with unit policy p4mite"},
        Bad{"{name: headroom}", "{name: a, unit_policy: wrr, tries: [1]}",
            "tries: allowed only with unit policy"},
        Bad{"{name: headroom}", "{name: a, unit_policy: p4mite, tries: [0]}", "tries[#1]: expected a number"},
        Bad{"{name: headroom}", "{name: a, unit_policy: p4mite, threshold: 1ms, of_unloaded: true}",
            "threshold: not allowed with of_unloaded"},
        Bad{"{name: headroom}", "{name: a, unit_policy: p4mite, second_report: 0}",
            "second_report: expected a time from 1us"},
        Bad{"{name: headroom}", "{name: a, wait_weights: [1]}",
            "wait_weights: allowed only with decider omniscient"},
        Bad{"{name: headroom}", "{name: a, decider: omniscient, unit_policy: wrr}",
            "unit_policy: allowed only with decider switch"},
        Bad{"{name: headroom}", "{name: a, decider: omniscient, work_weights: []}",
            "work_weights: expected at least one number"},
        Bad{"{name: headroom}", "{name: a, front: {}}",
            "front.service: expected the time that a request takes"},
        Bad{"{name: headroom}", "{name: a, from: pool}", "from: expected an app with a pool file, got none"},
        Bad{"{name: headroom}", "{name: a, from: file}", "from: expected one of pool, got \"file\""}));

TEST(ScenarioRefusal, P4miteNeedsAThreshold) {
  const std::string without = With(kText, "      threshold: 100ms\n", "");
  const std::string p4mite = "    - {name: p, unit_policy: p4mite";
  EXPECT_THAT(Problem(without + p4mite + "}\n"),
              HasSubstr("policies[p]: expected a threshold, here or of app dns"));
  EXPECT_EQ(Problem(without + p4mite + ", threshold: 5ms}\n"), "accepted");
  EXPECT_EQ(Problem(without + p4mite + ", of_unloaded: true}\n"), "accepted");
  EXPECT_EQ(Problem(without), "accepted") << "nobody reads it";
}

TEST(ScenarioRefusal, HostOnlyNeedsAHostInEveryServer) {
  EXPECT_THAT(Problem(With(With(kText, "kind: cpu", "kind: gpu"), "{name: headroom}",
                           "{name: h, unit_policy: host-only}")),
              HasSubstr("policies[h]: expected a unit of kind cpu in every server of app dns"));
}

TEST(ScenarioRefusal, NineUnits) {
  std::string units;
  for (int i = 0; i < 9; i++)
    units += "        - {name: u" + std::to_string(i) + ", kind: cpu, service: 1ms}\n";
  EXPECT_THAT(Problem("sim:\n  name: n\n  apps:\n    - name: a\n      units:\n" + units +
                      "  load_pct: [50]\n  policies: [{name: headroom}]\n"),
              HasSubstr("units: expected 1 to 8 units, got 9"));
}

TEST(ScenarioRefusal, MoreServersInAllThanTenThousand) {
  EXPECT_THAT(Problem("sim:\n  name: n\n  apps:\n    - name: a\n      groups:\n"
                      "        - {count: 9000, units: [{name: u, kind: cpu, service: 1ms}]}\n"
                      "        - {count: 1001, units: [{name: u, kind: cpu, service: 1ms}]}\n"
                      "  load_pct: [50]\n  policies: [{name: headroom}]\n"),
              HasSubstr("sim.apps[a]: expected at most 10000 servers, got 10001"));
}

// Each list is within its own bounds, what they make together would fill a machine's memory.
TEST(ScenarioRefusal, MoreThanMemoryHolds) {
  const std::string app =
      "sim:\n  name: n\n  apps:\n    - name: a\n      servers: 10000\n"
      "      units: [{name: u, kind: cpu, service: 1ms}]\n";
  EXPECT_THAT(
      Problem(app + "  switches: 64\n  load_pct: [50]\n  policies: [{name: headroom}]\n"),
      HasSubstr("expected at most 3125 servers of app a, as each of 64 switches knows all, got 10000"));
  std::string loads, policies;
  for (int i = 1; i <= 1000; i++) loads += std::to_string(i) + ", ";
  for (int i = 0; i < 201; i++) policies += "{name: p" + std::to_string(i) + ", unit_policy: wrr}, ";
  EXPECT_THAT(
      Problem(app + "  load_pct: [" + loads + "]\n  policies: [" + policies + "]\n"),
      HasSubstr("expected at most 200000 rows (apps, their arrivals, loads and reports, each with each "
                "policy), got 201000"));
}

}  // namespace
}  // namespace spillway::sim

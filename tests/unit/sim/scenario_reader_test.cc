// SPDX-License-Identifier: Apache-2.0
// What each key of a scenario file becomes, and what its absence means.
#include "sim/scenario/scenario_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "scenario_text.h"

namespace spillway::sim {
namespace {

using namespace std::chrono_literals;

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::ElementsAre;

TEST(ScenarioFile, TheLeastThatIsOneHasDocumentedDefaults) {
  const Scenario s = Parse(kText);
  EXPECT_EQ(s.name, "small");
  ASSERT_EQ(s.arrivals.size(), 1u);
  EXPECT_EQ(s.arrivals[0].kind, ArrivalKind::kPoisson);
  EXPECT_EQ(s.arrivals[0].name, "poisson");
  ASSERT_EQ(s.reports.size(), 1u);
  EXPECT_EQ(s.reports[0], (Reports{"answered", Duration(0), microseconds(1100), Duration(0), 0, false}));
  EXPECT_EQ(s.wire, microseconds(50));
  EXPECT_EQ(s.requests, 100'000u);
  EXPECT_EQ(s.warm_up, 10'000u);
  EXPECT_EQ(s.switches, 1u);
  EXPECT_EQ(s.seed, 1u);
  EXPECT_EQ(s.loss_over_unloaded, 10);
  EXPECT_EQ(s.silent_after, seconds(3));
  ASSERT_EQ(s.apps.size(), 1u);
  EXPECT_EQ(s.apps[0].joint_rps, 0);
  EXPECT_EQ(s.apps[0].spread, Spread::kLognormal);
  EXPECT_EQ(s.apps[0].cv, 0.2);
  ASSERT_EQ(s.policies.size(), 1u);
  EXPECT_EQ(s.policies[0].server_policy, SPW_SERVER_MAGLEV);
  EXPECT_EQ(s.policies[0].unit_policy, SPW_UNIT_HEADROOM);
  EXPECT_EQ(s.policies[0].decider, DeciderKind::kSwitch);
}

TEST(ScenarioFile, WholeExtent) {
  const Scenario s = Parse(kText +
                           "  wire: 20us\n  requests: 5000\n  switches: 4\n  seed: 18446744073709551615\n"
                           "  loss_over_unloaded: 5\n  silent_after: 100ms\n");
  EXPECT_EQ(s.wire, microseconds(20));
  EXPECT_EQ(s.requests, 5000u);
  EXPECT_EQ(s.warm_up, 500u) << "a tenth";
  EXPECT_EQ(s.switches, 4u);
  EXPECT_EQ(s.seed, UINT64_MAX);
  EXPECT_EQ(s.loss_over_unloaded, 5);
  EXPECT_EQ(s.silent_after, milliseconds(100));
  EXPECT_EQ(Parse(WithLine("warm_up: 0")).warm_up, 0u);
}

TEST(ScenarioFile, UnloadedIsServiceAndWhatOccupiesNobody) {
  const auto groups = Parse(kText).apps[0].groups;
  ASSERT_EQ(groups.size(), 1u);
  EXPECT_EQ(groups[0].count, 1u);
  ASSERT_EQ(groups[0].units.size(), 2u);
  const UnitProfile& nic = groups[0].units[1];
  EXPECT_EQ(nic.name, "nic");
  EXPECT_EQ(nic.kind, SPW_KIND_SMARTNIC);
  EXPECT_EQ(nic.capacity, 1);
  EXPECT_EQ(nic.workers, 1u);
  EXPECT_EQ(nic.service, microseconds(2182));
  EXPECT_EQ(nic.fixed, microseconds(818));
  EXPECT_EQ(nic.unloaded(), milliseconds(3));
}

TEST(ScenarioFile, UnitDefaults) {
  const std::string unit = "{name: cpu, kind: cpu, workers: 4, service: 8ms, queue_limit: 100}";
  const auto units =
      Parse(With(kText, "{name: cpu, kind: cpu, capacity: 5, service: 436us, unloaded: 3ms}", unit))
          .apps[0]
          .groups[0]
          .units;
  EXPECT_EQ(units[0].capacity, 500) << "workers over service time: what it answers per second";
  EXPECT_EQ(units[0].fixed, Duration(0));
  EXPECT_EQ(units[0].queue_limit, 100u);
  EXPECT_EQ(units[1].queue_limit, 1u << 20);
}

TEST(ScenarioFile, ServersAreEqualOrInGroups) {
  EXPECT_EQ(Parse(WithAppKey("servers: 16")).apps[0].groups[0].count, 16u);
  const auto groups =
      Parse(
          "sim:\n  name: g\n  apps:\n    - name: mixed\n      groups:\n"
          "        - {count: 3, units: [{name: cpu, kind: cpu, service: 1ms}]}\n"
          "        - units: [{name: cpu, kind: cpu, service: 1ms}, {name: gpu, kind: gpu, service: 1ms}]\n"
          "  load_pct: [50]\n  policies: [{name: headroom}]\n")
          .apps[0]
          .groups;
  ASSERT_EQ(groups.size(), 2u);
  EXPECT_EQ(groups[0].count, 3u);
  EXPECT_EQ(groups[1].count, 1u);
  EXPECT_EQ(groups[1].units.size(), 2u);
}

TEST(ScenarioFile, Workload) {
  const App app = Parse(WithAppKey("joint_rps: 2750\n      spread: lognormal\n      cv: 0.5")).apps[0];
  EXPECT_EQ(app.joint_rps, 2750);
  EXPECT_EQ(app.threshold, milliseconds(100));
  EXPECT_EQ(app.cv, 0.5);
  const App exponential = Parse(WithAppKey("spread: exponential")).apps[0];
  EXPECT_EQ(exponential.spread, Spread::kExponential);
  EXPECT_EQ(exponential.cv, 1);
}

TEST(ScenarioFile, UnitsAsTheyAre) {
  const std::string text =
      With(kText, "service: 2182us",
           "workers: 2, workers_known: false, service: 2182us, cpu_quota: {quota: 1ms, period: 5ms, tick: "
           "4ms}, quota_known: false,"
           " stall: {every: 2s, for: 30ms}, pause: {share: 0.02, for: 600us},"
           " neighbour: {every: 1s, for: 400ms, slowdown: 2}, drift: {period: 60s, amplitude: 0.3},"
           " cold: {for: 2s, slowdown: 3}, fails_fast: {from: 1s, until: 2s, after: 50us}");
  const Scenario scenario = Parse(text);
  EXPECT_EQ(scenario.apps[0].groups[0].units[0].interference, Interference());
  const UnitProfile& unit = scenario.apps[0].groups[0].units[1];
  EXPECT_FALSE(unit.workers_known);
  EXPECT_FALSE(unit.quota_known);
  EXPECT_EQ(unit.cpu_quota, (CpuQuota{1ms, 5ms, 4ms}));
  EXPECT_DOUBLE_EQ(unit.sustained_rps(), 0.2 / 2182e-6);
  const Interference& its = unit.interference;
  EXPECT_EQ(its.stall, (Interference::Stall{2s, 30ms}));
  EXPECT_EQ(its.pause, (Interference::Pause{0.02, 600us}));
  EXPECT_EQ(its.neighbour, (Interference::Neighbour{1s, 400ms, 2}));
  EXPECT_EQ(its.drift, (Interference::Drift{60s, 0.3}));
  EXPECT_EQ(its.cold, (Interference::Cold{2s, 3}));
  EXPECT_EQ(its.fails_fast, (Interference::FailsFast{1s, 2s, 50us}));
  EXPECT_DOUBLE_EQ(Parse(With(text, "capacity: 1, ", "")).apps[0].groups[0].units[1].capacity,
                   unit.sustained_rps());
}

TEST(ScenarioFile, AppsWithSettingsOfTheirOwn) {
  EXPECT_EQ(Parse(kText).apps[0].own, Overrides());
  const Scenario scenario = Parse(
      WithAppKey("arrivals: [{onoff: {on: 20ms, off: 40ms}}, {jump: {low: 0.3, every: 3s}}]\n"
                 "      reports: [{period: 20ms, learned: true}]\n      load_pct: [70]\n      wire: 20us\n"
                 "      requests: 8000\n      runs: 20\n      cold_start: true\n      flows: 64\n      "
                 "server_policy: p2c\n"
                 "      spread: bimodal\n      heavy_share: 0.01\n      heavy_ratio: 50"));
  const App& app = scenario.apps[0];
  ASSERT_EQ(app.own.arrivals.size(), 2u);
  EXPECT_EQ(app.own.arrivals[0].kind, ArrivalKind::kOnOff);
  EXPECT_EQ(app.own.arrivals[0].name, "onoff-20ms-40ms");
  EXPECT_EQ(app.own.arrivals[0].off, 40ms);
  EXPECT_EQ(app.own.arrivals[1].kind, ArrivalKind::kJump);
  EXPECT_EQ(app.own.arrivals[1].name, "jump-0.3-3000ms");
  EXPECT_EQ(app.own.arrivals[1].every, 3s);
  EXPECT_EQ(app.own.reports.at(0).period, 20ms);
  EXPECT_EQ(app.own.load_pct, std::vector<double>{70});
  EXPECT_EQ(app.own.wire, 20us);
  EXPECT_EQ(app.own.requests, 8000u);
  EXPECT_EQ(app.own.warm_up, 0u) << "cold";
  EXPECT_EQ(app.own.runs, 20u);
  EXPECT_EQ(app.own.flows, 64u);
  EXPECT_EQ(app.own.server_policy, SPW_SERVER_P2C);
  EXPECT_EQ(app.spread, Spread::kBimodal);
  EXPECT_EQ(app.bimodal, (Bimodal{0.01, 50}));
  EXPECT_EQ(Parse(WithLine("cold_start: true")).warm_up, 0u);
  EXPECT_EQ(Parse(WithLine("flows: 64")).flows, 64u);
  EXPECT_TRUE(Parse(WithPolicy("{name: x, server_policy: maglev}")).policies[1].server_policy_named);
}

TEST(ScenarioFile, Failures) {
  const App app =
      Parse(WithAppKey("servers: 3\n      failures:\n"
                       "        - {server: 2, unit: nic, at: 1s, until: 2s, noticed_after: 10ms}\n"
                       "        - {server: 0, unit: cpu, at: 0, until: 500ms}"))
          .apps[0];
  EXPECT_THAT(app.failures, ElementsAre(Failure{2, 1, seconds(1), seconds(2), milliseconds(10)},
                                        Failure{0, 0, Duration(0), milliseconds(500), std::nullopt}));
}

TEST(ScenarioFile, Axes) {
  EXPECT_EQ(Parse(kText).axis, (Axis{AxisKind::kLoad, "load_pct", {50, 80}, 0}));
  EXPECT_EQ(Parse(With(kText, "load_pct: [50, 80]", "rps: [100, 2000]")).axis,
            (Axis{AxisKind::kRate, "rps", {100, 2000}, 0}));
  EXPECT_EQ(Parse(With(kText, "load_pct: [50, 80]", "work: {rps: 5, factors: [1, 9]}")).axis,
            (Axis{AxisKind::kWork, "work", {1, 9}, 5}));
}

TEST(ScenarioFile, WhereAllAppsHaveTheirOwnLoadsNoneIsSweptBeside) {
  const Scenario scenario = Parse(With(WithAppKey("load_pct: [70]"), "  load_pct: [50, 80]\n", ""));
  EXPECT_EQ(scenario.axis.kind, AxisKind::kLoad);
  EXPECT_EQ(scenario.apps[0].own.load_pct, std::vector<double>{70});
}

TEST(ScenarioFile, Reports) {
  const auto reports = Parse(WithLine("reports: [{name: fast, delay: 0}, {period: 20ms, delay: 100ms, "
                                      "jitter: 2.5ms, loss_pct: 20, learned: true}, {}, "
                                      "{period: 5ms, learned: true, check: 0}]"))
                           .reports;
  EXPECT_THAT(reports,
              ElementsAre(Reports{"fast", Duration(0), Duration(0), Duration(0), 0, false},
                          Reports{"every-20ms-delay-100ms-jitter-2.5ms-loss-20pct-learned", milliseconds(20),
                                  milliseconds(100), microseconds(2500), 0.2, true},
                          Reports{"answered", Duration(0), microseconds(1100), Duration(0), 0, false},
                          Reports{"every-5ms-learned-check-0ms", milliseconds(5), microseconds(1100),
                                  Duration(0), 0, true, Duration(0)}));
}

TEST(ScenarioFile, PoliciesOfTheSwitch) {
  const auto p =
      Parse(kText +
            "    - {name: a, server_policy: p2c, unit_policy: least-loaded, units_as_servers: true}\n"
            "    - {name: b, decider: switch, unit_policy: host-only, front: {service: 1.4ms}}\n"
            "    - {name: c, unit_policy: p4mite}\n"
            "    - {name: d, unit_policy: p4mite, threshold: 20ms, second_report: 5ms}\n"
            "    - {name: e, unit_policy: p4mite, tries: [0.5, 2], of_unloaded: true}\n")
          .policies;
  ASSERT_EQ(p.size(), 6u);
  EXPECT_EQ(p[1].server_policy, SPW_SERVER_P2C);
  EXPECT_EQ(p[1].unit_policy, SPW_UNIT_LEAST_LOADED);
  EXPECT_TRUE(p[1].units_as_servers);
  EXPECT_EQ(p[2].front.service, microseconds(1400));
  EXPECT_EQ(p[3].trigger, BusyTrigger{});
  EXPECT_EQ(p[4].trigger, (BusyTrigger{{1}, false, milliseconds(20), milliseconds(5)}));
  EXPECT_EQ(p[5].trigger, (BusyTrigger{{0.5, 2}, true, std::nullopt, Duration(0)}));
}

TEST(ScenarioFile, TheBound) {
  const auto p =
      Parse(WithPolicy("{name: bound, decider: omniscient, wait_weights: [1, 1.5], work_weights: [0, 2]}"))
          .policies;
  EXPECT_EQ(p[1].decider, DeciderKind::kOmniscient);
  EXPECT_THAT(p[1].wait_weights, ElementsAre(1, 1.5));
  EXPECT_THAT(p[1].work_weights, ElementsAre(0, 2));
  EXPECT_THAT(Parse(WithPolicy("{name: bound, decider: omniscient}")).policies[1].wait_weights,
              ElementsAre(1));
}

TEST(ScenarioFile, AFileThatCannotBeReadIsBadInput) {
  const auto missing = LoadScenario(testing::TempDir() + "no-such-scenario.yaml");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, ErrorCode::kBadInput);
  EXPECT_THAT(missing.error().message, testing::HasSubstr("no-such-scenario.yaml: expected a readable file"));
  EXPECT_FALSE(LoadScenario(testing::TempDir()));
}

}  // namespace
}  // namespace spillway::sim

// SPDX-License-Identifier: Apache-2.0
// Whole runs of each baseline: scenario text in, rows out.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "scenario_text.h"
#include "sim/sweep.h"

namespace spillway::sim {
namespace {

using testing::HasSubstr;

Scenario With(const std::string& policy, const std::string& more = "") {
  Scenario scenario = Parse(WithPolicy(policy) + more);
  scenario.policies.erase(scenario.policies.begin());  // headroom
  scenario.requests = 20'000;
  scenario.warm_up = 2000;
  return scenario;
}

std::vector<Row> Rows(const Scenario& scenario) { return RunSweep(scenario, 1, nullptr, nullptr).rows; }

class EachBaseline : public testing::TestWithParam<const char*> {
 protected:
  std::string Policy() const { return std::string("{name: it, decider: ") + GetParam() + "}"; }
};

TEST_P(EachBaseline, PlacesAllRequestsAndIsTheSameForASeed) {
  Scenario scenario = With(Policy());
  const auto rows = Rows(scenario), again = Rows(scenario);
  ASSERT_EQ(rows.size(), 2u);
  for (size_t i = 0; i < rows.size(); i++) {
    EXPECT_EQ(rows[i].result.dropped, 0u);
    EXPECT_NEAR(rows[i].result.share[0] + rows[i].result.share[1], 1, 1e-9);
    EXPECT_GT(rows[i].result.share[0], 0.5) << "the host answers five of six";
    EXPECT_EQ(rows[i].result.p99_ms, again[i].result.p99_ms);
    EXPECT_EQ(rows[i].result.share, again[i].result.share);
  }
  // The joint load of 50 % is less than the host alone can bear.
  EXPECT_LT(rows[0].result.p99_ms, 30);
  scenario.seed = 2;
  EXPECT_NE(Rows(scenario)[0].result.p99_ms, rows[0].result.p99_ms);
}

TEST_P(EachBaseline, WorksWithSeveralSwitchesThatKnowOnlyTheirOwn) {
  const auto one = Rows(With(Policy())), four = Rows(With(Policy(), "  switches: 4\n"));
  EXPECT_EQ(four[1].result.dropped, 0u);
  EXPECT_NE(four[1].result.p99_ms, one[1].result.p99_ms);
  EXPECT_LT(four[0].result.p99_ms, 100);
}

TEST_P(EachBaseline, WorksOverHundredsOfUnits) {
  Scenario scenario = With(Policy());
  scenario.apps[0].groups[0].count = 100;
  const auto rows = Rows(scenario);
  EXPECT_EQ(rows[0].result.dropped, 0u);
  EXPECT_LT(rows[0].result.p99_ms, 30);
}

TEST_P(EachBaseline, LosesAUnitThatFailsAndGetsItBack) {
  Scenario scenario = With(Policy());
  Failure failure;
  failure.unit = 1;
  failure.at = std::chrono::seconds(2);
  failure.until = std::chrono::seconds(4);
  failure.noticed = std::chrono::milliseconds(10);
  scenario.apps[0].failures = {failure};
  const auto rows = Rows(scenario);
  EXPECT_GT(rows[0].result.dropped + rows[1].result.dropped, 0u);
  EXPECT_LT(rows[0].result.dropped, 60u) << "what it held, and what came in 10 ms";
}

INSTANTIATE_TEST_SUITE_P(Names, EachBaseline,
                         testing::Values("prequal", "c3", "peak-ewma", "least-request", "jiq", "scd"),
                         [](const auto& each) {
                           std::string name = each.param;
                           std::erase(name, '-');
                           return name;
                         });

TEST(Baselines, PrequalReadsReportsOrProbes) {
  Scenario scenario = With("{name: it, decider: prequal}");
  const double by_reports = Rows(scenario)[1].result.p99_ms;
  EXPECT_GT(Rows(scenario)[1].result.reports_sent, 20'000u);
  scenario.policies[0].baseline.probes = true;
  EXPECT_EQ(Rows(scenario)[1].result.reports_sent, 0u);
  EXPECT_NE(Rows(scenario)[1].result.p99_ms, by_reports);
}

TEST(Baselines, ReportsThatAreLostOrLateAreHeardSo) {
  Scenario scenario = With("{name: it, decider: scd}");
  const double fresh = Rows(scenario)[1].result.p99_ms;
  scenario.reports[0].loss = 0.2;
  const RunResult lossy = Rows(scenario)[1].result;
  EXPECT_NEAR(static_cast<double>(lossy.reports_lost) / static_cast<double>(lossy.reports_sent), 0.2, 0.02);
  scenario.reports[0].period = scenario.reports[0].delay = std::chrono::milliseconds(100);
  EXPECT_GT(Rows(scenario)[1].result.p99_ms, fresh);
}

TEST_P(EachBaseline, WithinServerUsesTheServerThatTheHashNames) {
  const std::string within = Policy().substr(0, Policy().size() - 1) + ", within: server}";
  Scenario scenario = With(within);
  scenario.apps[0].groups[0].count = 2;
  scenario.flows = 1;                // all requests have one hash, so one server takes them
  scenario.axis.values = {40, 120};  // of both servers: 80 and 240 % of one
  const auto rows = Rows(scenario);
  EXPECT_LT(rows[0].result.p99_ms, 100);
  EXPECT_GT(rows[1].result.p99_ms, 1000) << "the other server is not used";
  EXPECT_GT(rows[0].result.share[1], 0) << "both units of the server are";
}

TEST_P(EachBaseline, WithinServerPassesOverAServerThatIsDownAsTheSwitchDoes) {
  Scenario scenario = With(Policy().substr(0, Policy().size() - 1) + ", within: server}");
  scenario.apps[0].groups[0].count = 2;
  for (uint32_t unit : {0u, 1u})
    scenario.apps[0].failures.push_back({1, unit, Duration(0), std::chrono::hours(1), Duration(0)});
  // Both slots of a quarter of the hashes name the server that is down.
  EXPECT_NEAR(static_cast<double>(Rows(scenario)[0].result.dropped), 5000, 500);
}

TEST_P(EachBaseline, WithinServerIsTheSameAsAllWithOneServer) {
  const std::string within = Policy().substr(0, Policy().size() - 1) + ", within: server}";
  const auto all = Rows(With(Policy())), one = Rows(With(within));
  EXPECT_EQ(all[0].result.p99_ms, one[0].result.p99_ms);
  EXPECT_EQ(all[1].result.share, one[1].result.share);
}

TEST(BaselineKeys, WithinSaysAmongWhichUnits) {
  const Scenario s =
      Parse(WithPolicy("{name: a, decider: prequal, within: server, server_policy: wcmp, probes: false}") +
            "    - {name: b, decider: c3, within: all}\n");
  EXPECT_TRUE(s.policies[1].baseline.within_server);
  EXPECT_EQ(s.policies[1].server_policy, SPW_SERVER_WCMP);
  EXPECT_FALSE(s.policies[2].baseline.within_server);

  EXPECT_THAT(Problem(WithPolicy("{name: a, decider: c3, within: rack}")),
              HasSubstr("within: expected one of all, server"));
  EXPECT_THAT(Problem(WithPolicy("{name: a, decider: c3, server_policy: wcmp}")),
              HasSubstr("server_policy: allowed only with decider switch or within: server"));
  EXPECT_THAT(Problem(WithPolicy("{name: a, within: server}")),
              HasSubstr("within: allowed only with a baseline as decider"));
}

TEST(BaselineKeys, AreReadAndRefusedWhereTheyMeanNothing) {
  const Scenario s = Parse(WithPolicy("{name: a, decider: prequal, quantile: 0.6, probes: false}") +
                           "    - {name: b, decider: peak-ewma, decay: 2s}\n"
                           "    - {name: c, decider: least-request, bias: 2}\n");
  EXPECT_EQ(s.policies[1].decider, DeciderKind::kPrequal);
  EXPECT_EQ(s.policies[1].baseline.quantile, 0.6);
  EXPECT_EQ(s.policies[1].baseline.probes, false);
  EXPECT_EQ(s.policies[2].baseline.decay, std::chrono::seconds(2));
  EXPECT_EQ(s.policies[3].baseline.bias, 2);

  EXPECT_THAT(Problem(WithPolicy("{name: a, decider: c3, quantile: 0.6}")),
              HasSubstr("quantile: allowed only with decider prequal"));
  EXPECT_THAT(Problem(WithPolicy("{name: a, decay: 1s}")),
              HasSubstr("decay: allowed only with decider peak-ewma"));
  EXPECT_THAT(Problem(WithPolicy("{name: a, decider: jiq, bias: 1}")),
              HasSubstr("bias: allowed only with decider least-request"));
  EXPECT_THAT(Problem(WithPolicy("{name: a, decider: scd, unit_policy: wrr}")),
              HasSubstr("unit_policy: allowed only with decider switch"));
  EXPECT_THAT(Problem(WithPolicy("{name: a, decider: scd, wait_weights: [1]}")),
              HasSubstr("wait_weights: allowed only with decider omniscient"));
  EXPECT_THAT(Problem(WithPolicy("{name: a, decider: prequal, quantile: 1.1}")),
              HasSubstr("quantile: expected a number from 0 to 1"));
  EXPECT_THAT(Problem(sim::With(WithPolicy("{name: a, decider: prequal, probes: false}"),
                                "      units:", "      servers: 5\n      units:")),
              HasSubstr("probes: expected at most 8 units without probes, app dns has 10"));
}

}  // namespace
}  // namespace spillway::sim

// SPDX-License-Identifier: Apache-2.0
// What an overload has taught the agents must not harm the calm that follows it.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "scenario_text.h"
#include "sim/sweep.h"

namespace spillway::sim {
namespace {

// Each with 4 s at somewhat more than all units can do together, and then at the load at which it is
// measured, from some seconds later on.
struct Calm {
  std::string name, units, arrivals;
  int servers, load_pct, warm_up;
};
void PrintTo(const Calm& calm, std::ostream* out) { *out << calm.name; }

const Calm kCalms[] = {
    {"WithAQuotaLessThanHalfUsed",
     "        - {name: cpu, kind: cpu, capacity: 4, workers_known: false, service: 340us, unloaded: 360us,\n"
     "           cpu_quota: {quota: 2ms, period: 10ms, tick: 4ms}}\n"
     "        - {name: nic, kind: smartnic, capacity: 1, workers_known: false, service: 1500us,\n"
     "           unloaded: 1520us, cpu_quota: {quota: 2ms, period: 10ms, tick: 4ms}}\n",
     "{times: 2.6, lasts: 4s}", 2, 40, 9459},
    // The SmartNIC works as fast as the host, on a quarter of its time: it must not be left alone for good.
    {"OfUnitsThatAreEquallyQuick",
     "        - {name: cpu, kind: cpu, capacity: 4, workers_known: false, service: 360us, unloaded: 380us,\n"
     "           cpu_quota: {quota: 4ms, period: 20ms, tick: 4ms}}\n"
     "        - {name: nic, kind: smartnic, capacity: 1, workers_known: false, service: 360us,\n"
     "           unloaded: 380us, cpu_quota: {quota: 1ms, period: 20ms, tick: 4ms}}\n",
     "{times: 2.333, lasts: 4s}", 3, 60, 22916},
};

class AfterAnOverload : public testing::TestWithParam<Calm> {};

TEST_P(AfterAnOverload, HeadroomIsAsGoodAsTheBestOfThoseThatLearnNothing) {
  const Calm& calm = GetParam();
  const Scenario scenario = Parse(
      "sim:\n"
      "  name: calm\n"
      "  apps:\n"
      "    - name: dns\n"
      "      servers: " +
      std::to_string(calm.servers) + "\n      units:\n" + calm.units +
      "      threshold: 10ms\n"
      "      cv: 0.1\n"
      "  arrivals: [{overload: " +
      calm.arrivals +
      "}]\n"
      "  load_pct: [" +
      std::to_string(calm.load_pct) +
      "]\n"
      "  reports: [{period: 5ms, delay: 200us, learned: true}]\n"
      "  policies:\n"
      "    - {name: headroom}\n"
      "    - {name: host-only, unit_policy: host-only}\n"
      "    - {name: wrr, unit_policy: wrr}\n"
      "  wire: 20us\n"
      "  requests: 8000\n"
      "  warm_up: " +
      std::to_string(calm.warm_up) +
      "\n"
      "  runs: 3\n"
      "  loss_over_unloaded: 1000\n");
  const SweepResult sweep = RunSweep(scenario, 2, nullptr, nullptr);
  ASSERT_EQ(sweep.rows.size(), 3u);
  const double best = std::min(sweep.rows[1].result.p99_ms, sweep.rows[2].result.p99_ms);
  EXPECT_LE(sweep.rows[0].result.p99_ms, 1.5 * best) << best << " ms";
}
INSTANTIATE_TEST_SUITE_P(Units, AfterAnOverload, testing::ValuesIn(kCalms),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace spillway::sim

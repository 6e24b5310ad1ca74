// SPDX-License-Identifier: Apache-2.0
// A unit whose server becomes ten times slower, and answers: policies that read reports leave it alone while
// it is slow, the others do not. On random units, rates and seeds, with what agents really learn.
#include <gtest/gtest.h>

#include <random>

#include "sim/run.h"

namespace spillway::sim {
namespace {

using namespace std::chrono_literals;

// Two units of one server, alike; the first has its slow times.
class SlowUnit : public testing::TestWithParam<spw_unit_policy> {
 protected:
  // Slow half of the time, by seconds: it becomes so, and is itself again, a dozen times in a run.
  static constexpr Interference::Neighbour kTenTimesSlower{4s, 2s, 10, true};

  struct Load {
    Duration service;
    double rate_rps;  // at most what one unit alone bears
    uint64_t seed;
  };
  static Load RandomLoad(uint64_t seed) {
    std::mt19937_64 random(seed);
    const double service_us = std::uniform_real_distribution(300.0, 3000.0)(random);
    const double of_one_unit = std::uniform_real_distribution(0.4, 0.8)(random);
    return {Duration(static_cast<int64_t>(service_us * 1e3)), of_one_unit * 1e6 / service_us, seed};
  }
  // Its share of the requests.
  static double ShareOfFirst(const Load& load, bool has_slow_times) {
    UnitProfile unit;
    unit.name = "cpu";
    unit.service = load.service;
    App app;
    UnitProfile first = unit;
    if (has_slow_times) first.interference.neighbour = kTenTimesSlower;
    app.groups = {{1, {first, unit}}};
    PolicyChoice policy;
    policy.unit_policy = GetParam();
    policy.trigger.threshold = 4 * load.service;
    Arrivals arrivals;
    Reports reports;
    reports.period = 20ms;
    reports.learned = true;
    RunSetup setup;
    setup.app = &app;
    setup.arrivals = &arrivals;
    setup.reports = &reports;
    setup.policy = &policy;
    setup.rate_rps = load.rate_rps;
    setup.wire = 50us;
    setup.warm_up = static_cast<uint64_t>(4 * load.rate_rps);
    setup.requests = static_cast<uint64_t>(48 * load.rate_rps);
    setup.silent_after = 3s;
    setup.seed = load.seed;
    const RunResult result = sim::Run(setup);
    return result.share.at(0) / (result.share.at(0) + result.share.at(1));
  }
};

TEST_P(SlowUnit, GetsLessUnderPoliciesThatReadReportsAndAsMuchAsEverUnderTheOthers) {
  for (uint64_t seed = 1; seed <= 12; seed++) {
    const Load load = RandomLoad(seed);
    const double before = ShareOfFirst(load, false), now = ShareOfFirst(load, true);
    SCOPED_TRACE(testing::Message() << "seed " << seed << ", " << load.rate_rps << " requests/s of "
                                    << load.service.count() / 1000 << " us");
    // Slow for half of the time, it would have half of its share if it got nothing then and its whole share
    // else; and it gets a few, by which its agent sees that it is slow yet: most by jsq, which goes by how
    // many are in the unit and not by how long they will be.
    if (spw_unit_policy_reads_reports(GetParam()))
      EXPECT_LT(now, (GetParam() == SPW_UNIT_JSQ ? 0.85 : 0.75) * before);
    else
      EXPECT_NEAR(now, before, 0.01);
  }
}

INSTANTIATE_TEST_SUITE_P(Policy, SlowUnit,
                         testing::Values(SPW_UNIT_HOST_ONLY, SPW_UNIT_ECMP, SPW_UNIT_WRR, SPW_UNIT_P4MITE,
                                         SPW_UNIT_JSQ, SPW_UNIT_LEAST_LOADED, SPW_UNIT_HEADROOM));

}  // namespace
}  // namespace spillway::sim

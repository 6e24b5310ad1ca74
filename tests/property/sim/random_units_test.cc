// SPDX-License-Identifier: Apache-2.0
// Policy headroom on random units: the learner and the choice were tuned on a list of them
// (examples/sim/real-units.yaml), and users' are on no list. It need not be the best everywhere, but it may
// not lose requests that a policy without any knowledge answers, nor lock itself in.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "sim/run.h"

namespace spillway::sim {
namespace {

using namespace std::chrono_literals;

class RandomUnits {
 public:
  explicit RandomUnits(uint64_t seed) : random_(seed) {
    const double service_us = Spread(50, 5000), ratio = Spread(1, 10);
    const uint32_t host_workers = OneOf<uint32_t>({1, 1, 2, 4}), nic_workers = OneOf<uint32_t>({1, 1, 2, 4});
    app_.name = "random";
    app_.groups = {{OneOf<uint32_t>({1, 2}),
                    {Unit("cpu", SPW_KIND_CPU, service_us, host_workers),
                     Unit("nic", SPW_KIND_SMARTNIC, service_us * ratio, nic_workers)}}};
    app_.cv = OneOf({0.1, 0.3, 0.5, 1.0});
    arrivals_.kind = OneOf({ArrivalKind::kPoisson, ArrivalKind::kConstant});
    reports_.period = OneOf({5ms, 20ms});
    reports_.delay = 200us;
    reports_.learned = true;
    for (UnitProfile& unit : app_.groups[0].units) {
      unit.capacity = unit.sustained_rps();
      joint_rps_ += app_.groups[0].count * unit.sustained_rps();
    }
  }

  RunResult Result(spw_unit_policy policy, double load, uint64_t seed) const {
    PolicyChoice choice;
    choice.unit_policy = policy;
    RunSetup setup;
    setup.app = &app_;
    setup.arrivals = &arrivals_;
    setup.reports = &reports_;
    setup.policy = &choice;
    setup.rate_rps = load * joint_rps_;
    setup.wire = 30us;
    setup.requests = 15'000;
    setup.warm_up = 10'000;
    setup.silent_after = 3s;
    setup.loss_over_unloaded = 200;
    setup.seed = seed;
    return Run(setup);
  }

 private:
  double Uniform(double low, double high) { return std::uniform_real_distribution(low, high)(random_); }
  double Spread(double low, double high) { return std::exp(Uniform(std::log(low), std::log(high))); }
  template <class T>
  T OneOf(std::initializer_list<T> values) {
    return values.begin()[random_() % values.size()];
  }
  UnitProfile Unit(const char* name, spw_unit_kind kind, double service_us, uint32_t workers) {
    UnitProfile unit;
    unit.name = name;
    unit.kind = kind;
    unit.workers = workers;
    unit.workers_known = false;
    unit.service = Duration(static_cast<int64_t>(service_us * 1e3));
    unit.fixed = Duration(static_cast<int64_t>(service_us * 1e3 * OneOf({0.0, 0.1, 1.0})));
    if (Uniform(0, 1) < 0.4) {
      const Duration period = OneOf({5ms, 10ms, 20ms, 50ms});
      unit.cpu_quota = {
          Duration(static_cast<int64_t>(OneOf({0.2, 0.5}) * static_cast<double>(period.count()))), period,
          1ms};
    }
    if (Uniform(0, 1) < 0.2) unit.interference.stall = {2s, OneOf({5ms, 30ms})};
    if (Uniform(0, 1) < 0.2) unit.interference.pause = {0.02, unit.service};
    return unit;
  }

  std::mt19937_64 random_;
  App app_;
  Arrivals arrivals_;
  Reports reports_;
  double joint_rps_ = 0;
};

TEST(RandomUnits, HeadroomAnswersWhatAnyFixedChoiceAnswersAndNotMuchLater) {
  constexpr double kLoss = 0.01;
  std::vector<double> ratios;
  for (uint64_t seed = 1; seed <= 14; seed++) {
    const RandomUnits units(seed);
    for (const double load : {0.5, 0.85}) {
      SCOPED_TRACE(testing::Message() << "seed " << seed << " at load " << load);
      double best_ms = 0;
      for (const spw_unit_policy policy : {SPW_UNIT_HOST_ONLY, SPW_UNIT_WRR, SPW_UNIT_LEAST_LOADED}) {
        const RunResult fixed = units.Result(policy, load, seed);
        if (fixed.loss <= kLoss && (best_ms == 0 || fixed.p99_ms < best_ms)) best_ms = fixed.p99_ms;
      }
      if (best_ms == 0) continue;
      const RunResult own = units.Result(SPW_UNIT_HEADROOM, load, seed);
      EXPECT_LE(own.loss, 2 * kLoss);
      EXPECT_LE(own.p99_ms, 4 * best_ms);
      ratios.push_back(own.p99_ms / best_ms);
    }
  }
  ASSERT_GE(ratios.size(), 20u);
  std::nth_element(ratios.begin(), ratios.begin() + static_cast<ptrdiff_t>(ratios.size() / 2), ratios.end());
  EXPECT_LE(ratios[ratios.size() / 2], 1.1) << "the median";
}

}  // namespace
}  // namespace spillway::sim

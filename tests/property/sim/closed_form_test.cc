// SPDX-License-Identifier: Apache-2.0
// The simulator against queueing theory: M/M/k (Erlang C) and M/D/1 (Pollaczek and Khinchine; the waiting
// time's distribution by Erlang, 1909), for one unit that gets every request.
#include <gtest/gtest.h>

#include <cmath>

#include "sim/run.h"

namespace spillway::sim {
namespace {

using std::chrono::milliseconds;
constexpr double kServiceMs = 10;

struct Queue {
  App app;
  Arrivals arrivals;
  Reports reports;
  PolicyChoice policy;
  RunSetup setup;
  Queue(uint32_t workers, Spread spread, double cv, double utilisation, uint64_t requests) {
    UnitProfile unit;
    unit.name = "cpu";
    unit.workers = workers;
    unit.service = milliseconds(10);
    app.groups = {{1, {unit}}};
    app.spread = spread;
    app.cv = cv;
    policy.unit_policy = SPW_UNIT_HOST_ONLY;
    setup.app = &app;
    setup.arrivals = &arrivals;
    setup.reports = &reports;
    setup.policy = &policy;
    setup.rate_rps = utilisation * workers / kServiceMs * 1e3;
    setup.requests = requests;
    setup.warm_up = requests / 10;
    setup.silent_after = std::chrono::seconds(3);
  }
  RunResult Result() const { return Run(setup); }
};

// Probability that an arrival waits in M/M/k; load = arrival rate * mean service.
double ErlangC(uint32_t k, double load) {
  double term = 1, sum = 1;
  for (uint32_t n = 1; n < k; n++) sum += term *= load / n;
  const double all_busy = term * load / k * k / (k - load);
  return all_busy / (sum + all_busy);
}

// P(T <= t): waits beyond service are exponential with rate (k - load) / service, given that it waits.
double MmkSojournBelow(uint32_t k, double load, double t_ms) {
  const double c = ErlangC(k, load), mu = 1 / kServiceMs, drain = (k - load) * mu;
  if (std::abs(drain - mu) < 1e-9) return 1 - std::exp(-mu * t_ms) * (1 + c * mu * t_ms);
  return 1 - (1 - c) * std::exp(-mu * t_ms) -
         c * (drain * std::exp(-mu * t_ms) - mu * std::exp(-drain * t_ms)) / (drain - mu);
}

template <class Below>
double QuantileMs(Below below, double q, double high = 1e6) {
  double low = 0;
  for (int i = 0; i < 100; i++) {
    const double middle = (low + high) / 2;
    (below(middle) < q ? low : high) = middle;
  }
  return low;
}

class Mmk : public testing::TestWithParam<std::tuple<uint32_t, double>> {};

// Tolerances: five times the spread of the estimate over seeds (largest at 90 %, where waits correlate).
TEST_P(Mmk, MeanMedianAndP99AgreeWithErlangC) {
  const auto [k, utilisation] = GetParam();
  const RunResult got = Queue(k, Spread::kExponential, 1, utilisation, 2'000'000).Result();
  const double load = utilisation * k;
  const double mean = kServiceMs + ErlangC(k, load) * kServiceMs / (k - load);
  auto below = [k = k, load](double t) { return MmkSojournBelow(k, load, t); };
  const double near = utilisation > 0.8 ? 0.05 : 0.015;
  EXPECT_NEAR(got.mean_ms / mean, 1, near);
  EXPECT_NEAR(got.p50_ms / QuantileMs(below, 0.5), 1, near);
  EXPECT_NEAR(got.p99_ms / QuantileMs(below, 0.99), 1, near);
  EXPECT_EQ(got.dropped, 0u);
}
INSTANTIATE_TEST_SUITE_P(Loads, Mmk,
                         testing::Combine(testing::Values(1u, 2u, 4u, 16u), testing::Values(0.3, 0.7, 0.9)));

// P(W <= t) in M/D/1 (Erlang): (1 - rho) * sum over j <= t/D of e^{-l(jD - t)} (l(jD - t))^j / j!. Summed in
// long double: terms alternate, and beyond some 40 services the digits are gone.
double Md1WaitBelow(double rho, double t_in_services) {
  long double sum = 0, factorial = 1;
  for (int j = 0; j <= static_cast<int>(t_in_services); j++) {
    if (j > 0) factorial *= j;
    const long double x = static_cast<long double>(rho) * (j - static_cast<long double>(t_in_services));
    sum += std::exp(-x) * std::pow(x, static_cast<long double>(j)) / factorial;
  }
  return static_cast<double>((1 - rho) * sum);
}

class Md1 : public testing::TestWithParam<double> {};

TEST_P(Md1, MeanAndQuantilesAgreeWithErlangsFormula) {
  const double rho = GetParam();
  const RunResult got = Queue(1, Spread::kLognormal, 0, rho, 2'000'000).Result();
  const double mean = kServiceMs * (1 + rho / (2 * (1 - rho)));
  const double near = rho > 0.8 ? 0.05 : 0.015;
  EXPECT_NEAR(got.mean_ms / mean, 1, near);
  for (auto [q, value] : {std::pair{0.5, got.p50_ms}, std::pair{0.99, got.p99_ms}}) {
    const double wait =
        QuantileMs([&](double t) { return Md1WaitBelow(rho, t / kServiceMs); }, q, 40 * kServiceMs);
    EXPECT_NEAR(value / (kServiceMs + wait), 1, near) << q;
  }
}
INSTANTIATE_TEST_SUITE_P(Loads, Md1, testing::Values(0.3, 0.7, 0.8));

TEST(Overload, KeepsItsQueueBoundedAndLosesTheExcess) {
  Queue queue(1, Spread::kExponential, 1, 1.25, 200'000);
  queue.app.groups[0].units[0].queue_limit = 1000;
  const RunResult got = queue.Result();
  EXPECT_NEAR(static_cast<double>(got.dropped) / static_cast<double>(got.requests), 0.2, 0.01)
      << "1.25 come for each that is served";
  EXPECT_GT(got.loss, 0.99) << "and the served have waited for 1,000 others";
}

}  // namespace
}  // namespace spillway::sim

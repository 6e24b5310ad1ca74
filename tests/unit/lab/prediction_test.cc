// SPDX-License-Identifier: Apache-2.0
// From calibrated units to the simulator's app, and what it says of them.
#include "lab/experiment/prediction.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lab/testbed/workloads.h"

namespace spillway::lab {
namespace {

using namespace std::chrono_literals;

UnitSpec Unit(const char* name, spw_unit_kind kind, Workload runs, double capacity) {
  UnitSpec unit;
  unit.name = name;
  unit.kind = kind;
  unit.runs = runs;
  unit.capacity = capacity;
  return unit;
}

ExperimentSpec Experiment(std::vector<UnitSpec> units) {
  ExperimentSpec spec;
  spec.name = "e";
  spec.service = "work";
  spec.client = LoadClient::kSpillwayLoad;
  spec.arrivals = ArrivalProcess::kPoisson;
  ServiceSpec service;
  service.name = "work";
  spec.testbed.services = {service};
  spec.testbed.servers = {{"s1", std::move(units)}};
  spec.policies = {{"host-only", SPW_UNIT_HOST_ONLY}, {"wrr", SPW_UNIT_WRR}};
  spec.load_pct = {50, 90};
  spec.seconds = 10;
  return spec;
}

Calibration Measured(std::vector<Calibration::Unit> units) {
  Calibration c;
  c.units = std::move(units);
  for (const Calibration::Unit& unit : c.units) c.full_rps += unit.rps;
  c.unloaded_ms = 10;
  c.limit_ms = 100;
  return c;
}

TEST(AddPredictions, UnitsAreAsFastAsTheyWereInThePolicysOwnSlices) {
  UnitSpec cpu = Unit("cpu", SPW_KIND_CPU, Workload::kKnot, 1);
  cpu.quota = CpuQuota{1ms, 5ms};
  const ExperimentSpec spec = Experiment({cpu});
  const Calibration calibration = Measured({{"s1-cpu", 400, true, std::nullopt}});  // 0.5 ms each
  std::vector<Row> rows;
  for (const double load : {50, 90})
    for (const char* policy : {"host-only", "wrr"}) {
      rows.emplace_back();
      rows.back().policy = policy;
      rows.back().load_pct = load;
      rows.back().work = {{{{0.05, 100}}, 1}};
    }
  const auto predicted = [&](double cpu_ms_at_90) {
    rows[2].work = {{{{cpu_ms_at_90 * 0.1, 100}}, 1}};
    AddPredictions(spec, calibration, 2, rows);
    return std::vector<double>{rows[0].predicted->p99_ms, rows[2].predicted->p99_ms,
                               rows[3].predicted->p99_ms};
  };
  const auto as_calibrated = predicted(0.5), slower = predicted(0.6), absurd = predicted(5),
             unknown = predicted(0);
  EXPECT_EQ(slower[0], as_calibrated[0]) << "at another load";
  EXPECT_GT(slower[1], 2 * as_calibrated[1]) << "108 % load";
  EXPECT_EQ(slower[2], as_calibrated[2]) << "another policy's slices";
  EXPECT_EQ(absurd, as_calibrated);
  EXPECT_EQ(unknown, as_calibrated);
}

TEST(AppOf, AnEmulatedUnitIsAsItsFileSays) {
  UnitSpec cpu = Unit("cpu", SPW_KIND_CPU, Workload::kEmulated, 5);
  cpu.emulated = {4, 2ms, 0.3, 1ms};
  const ExperimentSpec spec = Experiment({cpu});
  const sim::App app = AppOf(spec, Measured({{"s1-cpu", 2000, false, std::nullopt}}), 2);
  const sim::UnitProfile& unit = app.groups.at(0).units.at(0);
  EXPECT_EQ(unit.workers, 4u) << "they need no CPUs";
  EXPECT_EQ(unit.service, 2ms);
  EXPECT_EQ(unit.fixed, 1ms);
  EXPECT_EQ(unit.capacity, 5);
  EXPECT_EQ(unit.cpu_quota.period, 0ns);
  EXPECT_DOUBLE_EQ(app.cv, 0.3);
  EXPECT_EQ(app.joint_rps, 2000);
}

TEST(AppOf, WhatALoneRequestTakesBeyondItsServiceIsFixed) {
  UnitSpec cpu = Unit("cpu", SPW_KIND_CPU, Workload::kEmulated, 1);
  cpu.emulated = {1, 2ms, 0, 1ms};
  const sim::App app =
      AppOf(Experiment({cpu}), Measured({{"s1-cpu", 500, true, Quartiles{3.4, 3.5, 3.6}}}), 2);
  EXPECT_NEAR(std::chrono::duration<double>(app.groups[0].units[0].fixed).count(), 0.0015, 0.0001);
}

TEST(AppOf, AQuotaIsOneBudgetOfAllWorkersCpuTime) {
  UnitSpec nic = Unit("nic", SPW_KIND_SMARTNIC, Workload::kKnn, 1);
  nic.knn.workers = 4;
  nic.quota = CpuQuota{2ms, 10ms};
  const sim::App app = AppOf(Experiment({nic}), Measured({{"s1-nic", 40, true, std::nullopt}}), 2);
  const sim::UnitProfile& unit = app.groups[0].units[0];
  EXPECT_EQ(unit.service, 5ms) << "a fifth of a CPU for 40 requests/s";
  EXPECT_EQ(unit.cpu_quota, (sim::CpuQuota{2ms, 10ms, 4ms})) << "which the kernel looks at every 4 ms";
  EXPECT_EQ(unit.workers, 2u);
  EXPECT_EQ(unit.queue_limit, QueueLimitOf(nic));
  EXPECT_EQ(unit.queue_limit, 84u) << "4 in service, 20 waiting for each";
}

TEST(AppOf, WithoutAQuotaNoMoreWorkersThanCpusWork) {
  UnitSpec cpu = Unit("cpu", SPW_KIND_CPU, Workload::kVgg16, 1);
  cpu.vgg16.workers = 8;
  const auto profile = [&](size_t cpus) {
    return AppOf(Experiment({cpu}), Measured({{"s1-cpu", 100, true, std::nullopt}}), cpus).groups[0].units[0];
  };
  EXPECT_EQ(profile(2).workers, 2u);
  EXPECT_EQ(profile(2).service, 20ms);
  EXPECT_EQ(profile(16).workers, 8u);
  cpu.quota = CpuQuota{30ms, 20ms};
  EXPECT_EQ(profile(16).workers, 8u) << "which draw from one and a half CPUs";
  EXPECT_EQ(profile(16).service, 15ms);
  EXPECT_EQ(profile(1).cpu_quota.period, 0ms) << "one worker never uses more than a CPU";
}

TEST(AppOf, ScatterBeyondTheStallsIsTakenForTheSpreadOfServiceTimes) {
  UnitSpec cpu = Unit("cpu", SPW_KIND_CPU, Workload::kKnn, 1);
  cpu.knn.workers = 1;
  const auto cv = [&](const Quartiles& unloaded) {
    return AppOf(Experiment({cpu}), Measured({{"s1-cpu", 100, true, unloaded}}), 2).cv;
  };
  EXPECT_NEAR(cv({10, 10, 10}), 0, 0.001);
  EXPECT_NEAR(cv({9, 10, 9 + 1.349 * 2}), 0.2, 0.001) << "2 ms of 10 ms";
  EXPECT_EQ(cv({10, 20, 90}), 1) << "at most 1";
}

TEST(AppOf, UnitsThatComputeOnFewerCpusThanTheyHaveWorkersShareThem) {
  UnitSpec knot = Unit("cpu", SPW_KIND_CPU, Workload::kKnot, 1),
           emulated = Unit("nic", SPW_KIND_SMARTNIC, Workload::kEmulated, 1);
  const auto measured = [](size_t units) {
    return Measured(std::vector<Calibration::Unit>(units, {"s1-cpu", 100, true, std::nullopt}));
  };
  EXPECT_EQ(AppOf(Experiment({knot, knot}), measured(2), 1).shared_cpus, 1u);
  EXPECT_EQ(AppOf(Experiment({knot, knot}), measured(2), 2).shared_cpus, 0u) << "one for each";
  const sim::App one = AppOf(Experiment({knot, emulated}), measured(2), 1);
  EXPECT_EQ(one.shared_cpus, 0u) << "an emulated unit needs none";
  EXPECT_FALSE(one.groups[0].units[1].shares_cpus);
}

TEST(AppOf, ANeighbourComesAsRegularlyAsTheLabs) {
  UnitSpec cpu = Unit("cpu", SPW_KIND_CPU, Workload::kKnot, 1);
  cpu.neighbour = Neighbour{5s, 1s};
  const sim::App app = AppOf(Experiment({cpu}), Measured({{"s1-cpu", 100, true, std::nullopt}}), 2);
  const auto& neighbour = app.groups[0].units[0].interference.neighbour;
  EXPECT_TRUE(neighbour.regular);
  EXPECT_EQ(neighbour.every, 5s);
  EXPECT_EQ(neighbour.length, 1s);
  EXPECT_EQ(neighbour.slowdown, 2);
}

TEST(AppOf, TheTailOfLoneRequestsIsTakenForLateWakeUps) {
  UnitSpec cpu = Unit("cpu", SPW_KIND_CPU, Workload::kKnot, 1);
  const auto pause = [&](std::optional<double> p99_ms) {
    const Quartiles unloaded{10, 10, 10, p99_ms};
    return AppOf(Experiment({cpu}), Measured({{"s1-cpu", 100, true, unloaded}}), 2)
        .groups[0]
        .units[0]
        .interference.pause;
  };
  EXPECT_EQ(pause(std::nullopt).share, 0);
  EXPECT_EQ(pause(10).share, 0);
  // At a tenth of its load a request in ten meets another, so the model has a tail of its own.
  EXPECT_GT(pause(40).length, 20ms);
  EXPECT_LT(pause(40).length, 30ms);
  EXPECT_TRUE(pause(40).on_wake);
}

TEST(Prediction, OfBurstyArrivalsHasALongerTail) {
  UnitSpec cpu = Unit("cpu", SPW_KIND_CPU, Workload::kEmulated, 1);
  cpu.emulated = {1, 4ms, 0, 0ms};
  ExperimentSpec spec = Experiment({cpu});
  const Calibration calibration = Measured({{"s1-cpu", 250, false, std::nullopt}});
  const sim::App app = AppOf(spec, calibration, 2);
  const double poisson = Predict(spec, calibration, {app}, spec.policies[0], 60).p99_ms;
  spec.arrivals = ArrivalProcess::kBursty;
  EXPECT_GT(Predict(spec, calibration, {app}, spec.policies[0], 60).p99_ms, 1.2 * poisson);
}

TEST(Prediction, OfDnsperfHasItsFewFlows) {
  UnitSpec cpu = Unit("cpu", SPW_KIND_CPU, Workload::kKnot, 1);
  ExperimentSpec spec = Experiment({cpu});
  spec.testbed.servers.push_back({"s2", {cpu}});
  spec.policies = {{"host-only", SPW_UNIT_HOST_ONLY}};
  spec.seconds = 1;
  spec.arrivals = ArrivalProcess::kConstant;
  const Calibration calibration =
      Measured({{"s1-cpu", 1000, true, std::nullopt}, {"s2-cpu", 1000, true, std::nullopt}});
  const sim::App app = AppOf(spec, calibration, 4);
  const double many = Predict(spec, calibration, {app}, spec.policies[0], 92).p99_ms;
  spec.client = LoadClient::kDnsperf;
  EXPECT_GT(Predict(spec, calibration, {app}, spec.policies[0], 92).p99_ms, 2 * many)
      << "64 flows seldom divide evenly among two servers";
}

TEST(Prediction, OfAnIdlePoolIsItsUnloadedLatencyAndOfAnOverloadedOneIsLoss) {
  UnitSpec cpu = Unit("cpu", SPW_KIND_CPU, Workload::kEmulated, 1);
  cpu.emulated = {1, 4ms, 0, 6ms};
  ExperimentSpec spec = Experiment({cpu});
  const Calibration calibration = Measured({{"s1-cpu", 250, false, std::nullopt}});
  const sim::App app = AppOf(spec, calibration, 2);
  const Forecast idle = Predict(spec, calibration, {app}, spec.policies[0], 1);
  EXPECT_NEAR(idle.p50_ms, 10, 0.1);
  EXPECT_EQ(idle.loss, 0);
  EXPECT_GT(Predict(spec, calibration, {app}, spec.policies[0], 200).loss, 0.5);
}

TEST(Prediction, RequestsThatAreDroppedCountWithTheClientsTimeout) {
  UnitSpec cpu = Unit("cpu", SPW_KIND_CPU, Workload::kKnn, 1);
  cpu.knn.workers = 1;  // 21 requests at 4 ms each: no answer takes as long as the timeout
  ExperimentSpec spec = Experiment({cpu});
  const Calibration calibration = Measured({{"s1-cpu", 250, true, std::nullopt}});
  const Forecast f = Predict(spec, calibration, {AppOf(spec, calibration, 2)}, spec.policies[0], 150);
  EXPECT_EQ(f.p99_ms, calibration.TimeoutS() * 1e3);
  EXPECT_LT(f.p50_ms, 100);
}

TEST(Prediction, LargerRequestsAtOneRateTakeLonger) {
  UnitSpec cpu = Unit("cpu", SPW_KIND_CPU, Workload::kEmulated, 1);
  cpu.emulated = {1, 4ms, 0, 0ms};
  ExperimentSpec spec = Experiment({cpu});
  spec.load_pct = {5, 20};
  spec.grow = ExperimentSpec::Grow::kWork;
  const Calibration calibration = Measured({{"s1-cpu", 250, false, std::nullopt}});
  const sim::App app = AppOf(spec, calibration, 2);
  EXPECT_NEAR(Predict(spec, calibration, {app}, spec.policies[0], 5).p50_ms, 4, 0.1);
  EXPECT_NEAR(Predict(spec, calibration, {app}, spec.policies[0], 20).p50_ms, 16, 0.1);
}

TEST(Prediction, FillsEveryRowOfAKnownPolicy) {
  UnitSpec cpu = Unit("cpu", SPW_KIND_CPU, Workload::kEmulated, 5),
           nic = Unit("nic", SPW_KIND_SMARTNIC, Workload::kEmulated, 1);
  cpu.emulated = {1, 2ms, 0.2, 0ms};
  nic.emulated = {1, 10ms, 0.2, 0ms};
  const ExperimentSpec spec = Experiment({cpu, nic});
  std::vector<Row> rows(2);
  rows[0].policy = "host-only";
  rows[1].policy = "wrr";
  rows[0].load_pct = rows[1].load_pct = 90;
  AddPredictions(spec, Measured({{"s1-cpu", 500, false, std::nullopt}, {"s1-nic", 100, false, std::nullopt}}),
                 2, rows);
  ASSERT_TRUE(rows[0].predicted && rows[1].predicted);
  EXPECT_GT(rows[0].predicted->p99_ms, 2 * rows[1].predicted->p99_ms) << "the host alone has too much";
}

TEST(Predict, P4MiteTripsAtThePolicysOwnThreshold) {
  UnitSpec cpu = Unit("cpu", SPW_KIND_CPU, Workload::kEmulated, 5),
           nic = Unit("nic", SPW_KIND_SMARTNIC, Workload::kEmulated, 1);
  cpu.emulated = nic.emulated = Emulated{1, Micros(1000), 0.2, Micros(0)};
  ExperimentSpec spec = Experiment({cpu, nic});
  spec.testbed.agent.threshold = Micros(10'000'000);
  const Calibration calibration =
      Measured({{"s1-cpu", 1000, false, std::nullopt}, {"s1-nic", 1000, false, std::nullopt}});
  const sim::App app = AppOf(spec, calibration, 2);
  PolicyRun policy{"p4mite", SPW_UNIT_P4MITE};
  const Forecast never = Predict(spec, calibration, {app}, policy, 60);
  policy.agent = spec.testbed.agent;
  policy.agent->threshold = Micros(3000);
  EXPECT_LT(Predict(spec, calibration, {app}, policy, 60).p50_ms, 0.3 * never.p50_ms)
      << "1200 requests/s on a host that answers 1000";
}

TEST(ReportsOf, PeriodicAgentsReportEveryPeriodOthersByHeartbeat) {
  AgentSpec agent;
  agent.period = 5ms;
  agent.heartbeat = 700ms;
  EXPECT_EQ(ReportsOf(agent).period, 5ms);
  EXPECT_TRUE(ReportsOf(agent).learned) << "the lab's agents know nothing of their unit";
  agent.mode = "on-threshold";
  EXPECT_EQ(ReportsOf(agent).period, 700ms);
}

}  // namespace
}  // namespace spillway::lab

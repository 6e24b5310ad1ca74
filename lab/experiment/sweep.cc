// SPDX-License-Identifier: Apache-2.0
#include "sweep.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <thread>

#include "compute_capacity.h"
#include "lab/testbed/interrupt.h"

namespace spillway::lab {
namespace {

constexpr double kLatencyLimit = 10;               // times the unloaded latency (P4Mite, ICNP 2022)
constexpr int kLostLevelsEnough = 2;               // higher loads would tell nothing more
constexpr std::chrono::milliseconds kSettle{300};  // queues empty, agents report the calm
constexpr int kMostSettles = 200;                  // of units that compute, whose queues may hold much
constexpr double kIdle = 0.01;                     // of a CPU
constexpr double kPatienceS = 30;                  // with a unit that computes, before its pace is known

const model::Service& ServiceOf(const ExperimentSpec& spec, const Testbed& testbed) {
  const auto& all = testbed.plan().config.services;
  return *std::find_if(all.begin(), all.end(),
                       [&](const model::Service& s) { return s.name == spec.service; });
}

bool SameKind(const UnitSpec& a, const UnitSpec& b) {
  return a.kind == b.kind && a.runs == b.runs && a.quota == b.quota && a.emulated == b.emulated &&
         a.synthetic == b.synthetic && a.vgg16 == b.vgg16 && a.knn == b.knn && a.knot == b.knot;
}

bool AnyComputes(const TestbedSpec& testbed) {
  for (const ServerSpec& server : testbed.servers)
    for (const UnitSpec& unit : server.units)
      if (Computes(unit.runs)) return true;
  return false;
}

// Of the units that compute and have a quota: only their time is counted.
std::chrono::duration<double> ComputingTime(const Testbed& testbed) {
  std::chrono::nanoseconds total{};
  for (const UnitPlan& unit : testbed.plan().units)
    if (Computes(unit.spec.runs)) total += testbed.CpuTimeOf(unit.label);
  return total;
}

// Waits out whatever the last run left, on a testbed that is whole.
Result<void> Settle(const Testbed& testbed) {
  // A unit that computes works on at what the client has given up.
  for (int i = 0; i < kMostSettles; i++) {
    const auto before = ComputingTime(testbed);
    if (!SleepUnlessInterrupted(kSettle)) return Fail(ErrorCode::kSystem, "interrupted");
    if (ComputingTime(testbed) - before <= kIdle * kSettle) break;
  }
  const auto dead = testbed.Dead();
  if (dead.empty()) return {};
  return Fail(ErrorCode::kSystem, fmt::format("{} ended during the experiment", fmt::join(dead, ", ")));
}

LoadRun RunAt(const ExperimentSpec& spec, const model::Address& target, const model::ServicePort& port,
              double rate, double seconds) {
  LoadRun run;
  run.target = target;
  run.port = port;
  run.rate = rate;
  run.seconds = seconds;
  if (AnyComputes(spec.testbed)) run.timeout_s = kPatienceS;
  if (spec.unloaded_ms) run.timeout_s = std::max(1.0, 2 * kLatencyLimit * *spec.unloaded_ms / 1e3);
  return run;
}

// The limit before the unloaded latency is known.
double ProvisionalLimitMs(const ExperimentSpec& spec) {
  return spec.unloaded_ms ? kLatencyLimit * *spec.unloaded_ms : 100;
}

Result<Sample> LoadUnit(const ExperimentSpec& spec, const Testbed& testbed, const UnitPlan& unit,
                        const model::ServicePort& port, double rate) {
  if (auto calm = Settle(testbed); !calm) return tl::make_unexpected(calm.error());
  return RunLoad(testbed, spec.client, RunAt(spec, unit.address, port, rate, spec.calibrate_seconds));
}

// Closed loop: with requests always waiting, a server wakes less often and answers more than it can when
// they come one by one.
Result<double> UpperBound(const ExperimentSpec& spec, const Testbed& testbed, const UnitPlan& unit,
                          const model::ServicePort& port) {
  auto sample = LoadUnit(spec, testbed, unit, port, 0);
  if (!sample) return tl::make_unexpected(sample.error());
  const double rps = static_cast<double>(sample->latencies_ms.size()) / sample->seconds;
  if (rps >= 1) return rps;
  return Fail(ErrorCode::kSystem,
              fmt::format("{} answers nothing at {}", unit.label, unit.address.ToString()));
}

// The highest open-loop rate without loss, by halving the interval.
Result<double> HighestRate(const ExperimentSpec& spec, const Testbed& testbed, const UnitPlan& unit,
                           const model::ServicePort& port, double bound) {
  constexpr int kHalvings = 4;  // of the upper half: to 3 % of the bound
  double low = bound / 2, high = bound;
  for (int i = 0; i < kHalvings; i++) {
    const double rate = (low + high) / 2;
    auto sample = LoadUnit(spec, testbed, unit, port, rate);
    if (!sample) return tl::make_unexpected(sample.error());
    const bool good = AnsweredPct(*sample, ProvisionalLimitMs(spec)) >= 100 - spec.tolerated_loss_pct;
    (good ? low : high) = rate;
  }
  return low;
}

// The rate at which a unit's quota is used up, from the CPU time an answer takes at a high load without
// a standing queue. Counting CPU time, not losses: what else this machine does then disturbs little.
Result<double> QuotaRate(const ExperimentSpec& spec, const Testbed& testbed, const UnitPlan& unit,
                         const model::ServicePort& port, double bound) {
  constexpr double kHighLoad = 0.8;
  const auto before = testbed.CpuTimeOf(unit.label);
  auto sample = LoadUnit(spec, testbed, unit, port, bound * kHighLoad);
  if (!sample) return tl::make_unexpected(sample.error());
  const std::chrono::duration<double> used = testbed.CpuTimeOf(unit.label) - before;
  const double share = std::chrono::duration<double>(unit.spec.quota->quota) / unit.spec.quota->period;
  if (used.count() <= 0 || sample->latencies_ms.empty())
    return Fail(ErrorCode::kSystem, fmt::format("{}: no CPU time or no answer to measure", unit.label));
  return share * static_cast<double>(sample->latencies_ms.size()) / used.count();
}

Result<double> CapacityOfComputing(const ExperimentSpec& spec, const Testbed& testbed, const UnitPlan& unit,
                                   const model::ServicePort& port) {
  const size_t cpus = CpusOf(testbed.spec());
  const LoadAt load = [&](double rate, double seconds) -> Result<MeteredSample> {
    if (auto calm = Settle(testbed); !calm) return tl::make_unexpected(calm.error());
    const auto before = testbed.CpuTimeOf(unit.label);
    auto sample = RunLoad(testbed, spec.client, RunAt(spec, unit.address, port, rate, seconds));
    if (!sample) return tl::make_unexpected(sample.error());
    return MeteredSample{std::move(*sample), testbed.CpuTimeOf(unit.label) - before};
  };
  return ComputeCapacity(unit.spec, cpus, spec.calibrate_seconds, load).map_error([&](Error error) {
    error.message = fmt::format("{} at {}: {}", unit.label, unit.address.ToString(), error.message);
    return error;
  });
}

Result<double> UnitCapacity(const ExperimentSpec& spec, const Testbed& testbed, const UnitPlan& unit,
                            const model::ServicePort& port) {
  if (unit.spec.runs == Workload::kEmulated)
    return unit.spec.emulated.workers / std::chrono::duration<double>(unit.spec.emulated.service).count();
  if (Computes(unit.spec.runs)) return CapacityOfComputing(spec, testbed, unit, port);
  auto bound = UpperBound(spec, testbed, unit, port);
  if (!bound) return bound;
  if (!unit.spec.quota) return HighestRate(spec, testbed, unit, port, *bound);
  // No unit does more than it did with requests always waiting: part of a quota may stay unused.
  return QuotaRate(spec, testbed, unit, port, *bound).map([&](double rate) {
    return std::min(rate, *bound);
  });
}

Result<Quartiles> Unloaded(const ExperimentSpec& spec, const Testbed& testbed, const UnitPlan& unit,
                           const model::Address& target, double unit_rps, const model::ServicePort& port) {
  if (auto calm = Settle(testbed); !calm) return tl::make_unexpected(calm.error());
  const Pace pace = Computes(unit.spec.runs) ? UnloadedPace(unit_rps, spec.calibrate_seconds)
                                             : Pace{std::max(1.0, unit_rps / 10), spec.calibrate_seconds};
  const LoadRun run = RunAt(spec, target, port, pace.rate, pace.seconds);
  return RunLoad(testbed, spec.client, run).map([&](const Sample& sample) {
    const auto at = [&](double percent) { return LatencyPercentile(sample, percent, run.timeout_s); };
    return Quartiles{at(25), at(50), at(75)};
  });
}

// Of the first unit, at its own address; through the switch where that rewrites what the unit answers.
Result<double> UnloadedMs(const ExperimentSpec& spec, const Testbed& testbed, const Calibration& calibration,
                          const model::ServicePort& port) {
  const auto& units = testbed.plan().units;
  const UnitPlan& unit = units.front();
  const double floor =
      unit.spec.quota ? std::chrono::duration<double, std::milli>(unit.spec.quota->period).count() : 0;
  if (!calibration.units.empty() && calibration.units.front().unloaded)
    return std::max(floor, calibration.units.front().unloaded->median_ms);
  const double unit_rps = calibration.units.empty()
                              ? calibration.joint_rps / static_cast<double>(units.size())
                              : calibration.units.front().rps;
  const model::Service& service = ServiceOf(spec, testbed);
  const model::Address target = service.mode == SPW_MODE_NAT ? service.vip : unit.address;
  return Unloaded(spec, testbed, unit, target, unit_rps, port).map([&](const Quartiles& latency) {
    return std::max(floor, latency.median_ms);
  });
}

Result<void> MeasureUnits(const ExperimentSpec& spec, const Testbed& testbed, const model::ServicePort& port,
                          const OnStep& on_step, Calibration& calibration) {
  const auto& units = testbed.plan().units;
  const bool alone = ServiceOf(spec, testbed).mode != SPW_MODE_NAT;
  for (size_t i = 0; i < units.size(); i++) {
    on_step(static_cast<double>(i) / static_cast<double>(units.size() + 1),
            fmt::format("what {} answers alone", units[i].label));
    size_t same = 0;
    while (same < i && !SameKind(units[same].spec, units[i].spec)) same++;
    if (same < i) {
      calibration.units.push_back(calibration.units[same]);
      calibration.units.back().label = units[i].label;
      calibration.units.back().measured = false;
    } else {
      const auto rps = UnitCapacity(spec, testbed, units[i], port);
      if (!rps) return tl::make_unexpected(rps.error());
      calibration.units.push_back({units[i].label, *rps, true, std::nullopt});
    }
    Calibration::Unit& unit = calibration.units.back();
    if (unit.measured && spec.predict && alone) {
      auto latency = Unloaded(spec, testbed, units[i], units[i].address, unit.rps, port);
      if (!latency) return tl::make_unexpected(latency.error());
      unit.unloaded = *latency;
    }
    calibration.joint_rps += unit.rps;
  }
  return {};
}

}  // namespace

size_t CpusOf(const TestbedSpec& testbed) {
  return testbed.cpus.units.empty() ? std::thread::hardware_concurrency() : testbed.cpus.units.size();
}

Result<Calibration> Calibrate(const ExperimentSpec& spec, const Testbed& testbed, const OnStep& on_step) {
  const model::ServicePort port = ServiceOf(spec, testbed).ports.front();
  Calibration calibration;
  if (!spec.capacity_rps)
    if (auto measured = MeasureUnits(spec, testbed, port, on_step, calibration); !measured)
      return tl::make_unexpected(measured.error());
  if (spec.capacity_rps) calibration.joint_rps = *spec.capacity_rps;
  if (spec.unloaded_ms) {
    calibration.unloaded_ms = *spec.unloaded_ms;
  } else {
    on_step(0.9, "latency at 10 % load");
    auto measured = UnloadedMs(spec, testbed, calibration, port);
    if (!measured) return tl::make_unexpected(measured.error());
    calibration.unloaded_ms = *measured;
  }
  calibration.limit_ms = kLatencyLimit * calibration.unloaded_ms;
  return calibration;
}

Result<std::vector<Measurement>> Sweep(const ExperimentSpec& spec, const std::vector<double>& levels_pct,
                                       Testbed& testbed, const Calibration& calibration,
                                       const OnStep& on_step) {
  const model::Service& service = ServiceOf(spec, testbed);
  std::vector<Measurement> all;
  const size_t policies = spec.policies.size();
  const double total = static_cast<double>(levels_pct.size() * policies) * spec.rounds;
  int all_lost = 0;  // successive levels
  for (double load_pct : levels_pct) {
    for (int round = 0; round < spec.rounds; round++)
      for (size_t turn = 0; turn < policies; turn++) {
        const PolicyRun& policy = spec.policies[(turn + static_cast<size_t>(round)) % policies];
        on_step(static_cast<double>(all.size()) / total,
                fmt::format("{} at {:.0f} % load, round {} of {}", policy.name, load_pct, round + 1,
                            spec.rounds));
        if (auto set = testbed.Balance(spec.service, policy.unit_policy, policy.balancer); !set)
          return tl::make_unexpected(set.error());
        if (auto calm = Settle(testbed); !calm) return tl::make_unexpected(calm.error());
        LoadRun run = RunAt(spec, service.vip, service.ports.front(),
                            calibration.joint_rps * spec.RatePctAt(load_pct) / 100, spec.seconds);
        run.timeout_s = calibration.TimeoutS();
        auto sample = RunLoad(testbed, spec.client, run);
        if (!sample) return tl::make_unexpected(sample.error());
        all.push_back({policy.name, load_pct, static_cast<double>(sample->sent) / sample->seconds,
                       LatencyPercentile(*sample, 50, run.timeout_s),
                       LatencyPercentile(*sample, 99, run.timeout_s),
                       AnsweredPct(*sample, calibration.limit_ms)});
      }
    all_lost = AllLost(Summarise(all), load_pct, spec.tolerated_loss_pct) ? all_lost + 1 : 0;
    if (all_lost == kLostLevelsEnough) break;
  }
  return all;
}

}  // namespace spillway::lab

// SPDX-License-Identifier: Apache-2.0
#include "calibration.h"

#include <fmt/format.h>

#include <thread>
#include <utility>

#include "capacity_search.h"
#include "compute_capacity.h"
#include "joint_work.h"
#include "machine_watch.h"
#include "sweep.h"

namespace spillway::lab {
namespace {

constexpr double kProvisionalLimitMs = 100;  // before the unloaded latency is known

bool SameKind(const UnitSpec& a, const UnitSpec& b) {
  return a.kind == b.kind && a.runs == b.runs && a.quota == b.quota && a.emulated == b.emulated &&
         a.synthetic == b.synthetic && a.vgg16 == b.vgg16 && a.knn == b.knn && a.knot == b.knot;
}

double ProvisionalLimit(const ExperimentSpec& spec) {
  return spec.unloaded_ms ? kLatencyLimit * *spec.unloaded_ms : kProvisionalLimitMs;
}

// One unit alone, at its own address; again while the machine disturbed it.
class LoneUnit {
 public:
  LoneUnit(const Bed& bed, MachineWatch& watch, const UnitPlan& plan)
      : bed_(bed), watch_(watch), plan_(plan) {}

  const UnitPlan& plan() const { return plan_; }
  const ExperimentSpec& experiment() const { return bed_.spec(); }

  Result<MeteredSample> Metered(double rate, double seconds) const {
    const auto ready = [&] { return bed_.Settle(); };
    const auto play = [&]() -> Result<MeteredSample> {
      const auto before = bed_.testbed().CpuTimeOf(plan_.label);
      auto sample = bed_.Load(plan_.address, rate, seconds);
      if (!sample) return tl::make_unexpected(sample.error());
      return MeteredSample{std::move(*sample), bed_.testbed().CpuTimeOf(plan_.label) - before};
    };
    return PlayUndisturbed(watch_, ready, play).map([](auto played) { return std::move(played.result); });
  }
  Result<Sample> Load(double rate, double seconds) const {
    return Metered(rate, seconds).map([](MeteredSample run) { return std::move(run.sample); });
  }

 private:
  const Bed& bed_;
  MachineWatch& watch_;
  const UnitPlan& plan_;
};

// Closed loop: with requests always waiting, a server wakes less often and answers more than it can when
// they come one by one.
Result<double> UpperBound(const LoneUnit& unit) {
  auto sample = unit.Load(0, unit.experiment().calibrate_seconds);
  if (!sample) return tl::make_unexpected(sample.error());
  const double rps = static_cast<double>(sample->latencies_ms.size()) / sample->seconds;
  if (rps >= 1) return rps;
  return Fail(ErrorCode::kSystem,
              fmt::format("{} does not answer at {}", unit.plan().label, unit.plan().address.ToString()));
}

// The highest open-loop rate without loss, by halving the interval.
Result<double> HighestRate(const LoneUnit& unit, double bound) {
  constexpr int kHalvings = 4;  // of the upper half: to 3 % of the bound
  const ExperimentSpec& spec = unit.experiment();
  double low = bound / 2, high = bound;
  for (int i = 0; i < kHalvings; i++) {
    const double rate = (low + high) / 2;
    auto sample = unit.Load(rate, spec.calibrate_seconds);
    if (!sample) return tl::make_unexpected(sample.error());
    const bool good = AnsweredPct(*sample, ProvisionalLimit(spec)) >= 100 - spec.tolerated_loss_pct;
    (good ? low : high) = rate;
  }
  return low;
}

// The rate at which a unit's quota is used up, from the CPU time an answer takes at a high load without
// a standing queue. Counting CPU time, not losses: what else this machine does then disturbs little.
Result<double> QuotaRate(const LoneUnit& unit, double bound) {
  constexpr double kHighLoad = 0.8;
  const auto run = unit.Metered(bound * kHighLoad, unit.experiment().calibrate_seconds);
  if (!run) return tl::make_unexpected(run.error());
  const std::chrono::duration<double> used = run->cpu_time;
  const double share = QuotaShare(*unit.plan().spec.quota);
  if (used.count() <= 0 || run->sample.latencies_ms.empty())
    return Fail(ErrorCode::kSystem,
                fmt::format("{}: no CPU time or no answer to measure", unit.plan().label));
  return share * static_cast<double>(run->sample.latencies_ms.size()) / used.count();
}

Result<double> CapacityOfComputing(const LoneUnit& unit, size_t cpus) {
  const LoadAt load = [&](double rate, double seconds) { return unit.Metered(rate, seconds); };
  return ComputeCapacity(unit.plan().spec, cpus, unit.experiment().calibrate_seconds, load)
      .map_error([&](Error error) {
        error.message =
            fmt::format("{} at {}: {}", unit.plan().label, unit.plan().address.ToString(), error.message);
        return error;
      });
}

double EmulatedRate(const UnitSpec& unit) {
  return unit.emulated.workers / std::chrono::duration<double>(unit.emulated.service).count();
}

Result<double> UnitCapacity(const LoneUnit& unit, size_t cpus) {
  const UnitSpec& spec = unit.plan().spec;
  if (spec.runs == Workload::kEmulated) return EmulatedRate(spec);
  if (Computes(spec.runs)) return CapacityOfComputing(unit, cpus);
  auto bound = UpperBound(unit);
  if (!bound) return bound;
  if (!spec.quota) return HighestRate(unit, *bound);
  // No unit does more than it did with requests always waiting: part of a quota may stay unused.
  return QuotaRate(unit, *bound).map([&](double rate) { return std::min(rate, *bound); });
}

Result<Quartiles> Unloaded(const Bed& bed, const LoneUnit& unit, double unit_rps) {
  // The p99 of fewer requests is the worst of them, which is chance.
  constexpr double kEnough = 200, kFewest = 100, kLongest = 5;  // requests; seconds
  const double seconds = bed.spec().calibrate_seconds;
  Pace pace = UnloadedPace(unit_rps, seconds);
  if (!Computes(unit.plan().spec.runs)) {
    pace.rate = std::max(1.0, unit_rps / 10);
    pace.seconds = std::max(seconds, std::min(kEnough / pace.rate, kLongest));
  }
  return unit.Load(pace.rate, pace.seconds).map([&](const Sample& sample) {
    const auto at = [&](double percent) {
      return LatencyPercentile(sample, percent, bed.ProvisionalTimeoutS());
    };
    Quartiles quartiles{at(25), at(50), at(75)};
    if (static_cast<double>(sample.sent) >= kFewest) quartiles.p99_ms = at(99);
    return quartiles;
  });
}

// For the simulator: each kind of unit alone.
Result<std::vector<Calibration::Unit>> MeasureUnits(const Bed& bed, MachineWatch& watch,
                                                    const OnStep& on_step) {
  const auto& units = bed.testbed().plan().units;
  std::vector<Calibration::Unit> measured;
  for (size_t i = 0; i < units.size(); i++) {
    on_step(0.6 * static_cast<double>(i) / static_cast<double>(units.size()),
            fmt::format("what {} answers alone", units[i].label));
    size_t same = 0;
    while (same < i && !SameKind(units[same].spec, units[i].spec)) same++;
    if (same < i) {
      measured.push_back(measured[same]);
      measured.back().label = units[i].label;
      measured.back().measured = false;
      continue;
    }
    const LoneUnit unit(bed, watch, units[i]);
    const auto rps = UnitCapacity(unit, CpusOf(bed.testbed().spec()));
    if (!rps) return tl::make_unexpected(rps.error());
    auto latency = Unloaded(bed, unit, *rps);
    if (!latency) return tl::make_unexpected(latency.error());
    measured.push_back({units[i].label, *rps, true, *latency});
  }
  return measured;
}

// A rate that the testbed should sustain easily.
double FirstRate(const TestbedSpec& testbed) {
  constexpr double kComputing = 4, kOther = 64;
  double emulated = 0;
  bool all_emulated = true;
  for (const ServerSpec& server : testbed.servers)
    for (const UnitSpec& unit : server.units) {
      if (unit.runs == Workload::kEmulated) emulated += EmulatedRate(unit);
      all_emulated = all_emulated && unit.runs == Workload::kEmulated;
    }
  if (all_emulated) return emulated / 3;
  return AnyComputes(testbed) ? kComputing : kOther;
}

PolicyRun Under(const Bed& bed, spw_unit_policy policy) {
  return {model::ToString(policy), policy, bed.service().server_policy, bed.spec().testbed.balancer};
}

// Of a lone request to a host CPU.
Result<double> UnloadedMs(Bed& bed, const Calibration& calibration) {
  const UnitSpec& first = bed.testbed().plan().units.front().spec;
  const double floor =
      first.quota ? std::chrono::duration<double, std::milli>(first.quota->period).count() : 0;
  if (!calibration.units.empty()) return std::max(floor, calibration.units.front().unloaded->median_ms);
  constexpr double kRequests = 20;  // at least, for the median
  if (auto set = bed.Balance(Under(bed, SPW_UNIT_HOST_ONLY)); !set) return tl::make_unexpected(set.error());
  const double rate = FirstRate(bed.spec().testbed) / 2;
  const double seconds = std::max(kRequests / rate, 1.0);
  return bed.LoadIdle(bed.service().vip, rate, seconds).map([&](const Sample& sample) {
    return std::max(floor, LatencyPercentile(sample, 50, bed.ProvisionalTimeoutS()));
  });
}

Result<double> FullRate(Bed& bed, MachineWatch& watch, const Calibration& calibration, const OnStep& on_step,
                        std::vector<JointCost>& costs) {
  const PolicyRun policy = Under(bed, bed.spec().capacity_under);
  if (auto set = bed.Balance(policy); !set) return tl::make_unexpected(set.error());
  // An overload by a hundredth delays the last requests of a slice by a hundredth of its length. So that one
  // by more than kHiddenOverload is not taken for capacity, slices are long and answers late by that measure,
  // too.
  constexpr double kHiddenOverload = 0.05;
  const double seconds = std::max(bed.spec().seconds, kSearchSliceUnloaded * calibration.unloaded_ms / 1e3);
  const double limit_ms = std::min(calibration.limit_ms, kHiddenOverload * seconds * 1e3);
  // A hundredth of a slice's requests may be lost, so that one must not decide; but a slice has to end.
  constexpr double kMinRequests = 100, kMaxSeconds = 8;
  int tried = 0;
  bool slice_failed = false;
  const Sustains sustains = [&](double rate, int slices) -> Result<bool> {
    double sent = 0, in_time = 0;
    for (int i = 0; i < slices; i++) {
      on_step(0.65 + 0.35 * std::min(1.0, tried++ / kSearchSlices),
              fmt::format("what it sustains under {}: {:.0f} requests/s", policy.name, rate));
      auto slice = PlaySlice(bed, watch, rate, std::max(seconds, std::min(kMaxSeconds, kMinRequests / rate)),
                             calibration.TimeoutS(), bed.spec().seed + tried);
      if (!slice) {
        slice_failed = true;
        return tl::make_unexpected(slice.error());
      }
      costs.push_back({rate, slice->CpuSeconds(), static_cast<double>(slice->sample.latencies_ms.size())});
      if (slice->sample.sent == 0) continue;  // a slice too short for a request has lost none
      sent += static_cast<double>(slice->sample.sent);
      in_time += AnsweredPct(slice->sample, limit_ms) / 100 * static_cast<double>(slice->sample.sent);
    }
    return in_time >= sent * (1 - bed.spec().tolerated_loss_pct / 100);
  };
  const SearchCare care = SearchCare::Within(bed.spec().capacity_within_pct);
  // A unit answers one lone request after the other at least.
  const double first = std::max(FirstRate(bed.spec().testbed), 1e3 / calibration.unloaded_ms);
  return HighestSustained(first, care, sustains).map_error([&](Error error) {
    if (slice_failed) return error;
    error.message = fmt::format(
        "capacity under {}: {} (experiment.capacity_under sets another policy, capacity_rps a rate)",
        policy.name, error.message);
    return error;
  });
}

}  // namespace

size_t CpusOf(const TestbedSpec& testbed) {
  return testbed.cpus.units.empty() ? std::thread::hardware_concurrency() : testbed.cpus.units.size();
}

Result<Calibration> Calibrate(Bed& bed, MachineWatch& watch, const OnStep& on_step) {
  const ExperimentSpec& spec = bed.spec();
  Calibration calibration;
  if (spec.predict) {
    auto measured = MeasureUnits(bed, watch, on_step);
    if (!measured) return tl::make_unexpected(measured.error());
    calibration.units = std::move(*measured);
  }
  if (spec.unloaded_ms) {
    calibration.unloaded_ms = *spec.unloaded_ms;
  } else {
    on_step(0.6, "latency of a lone request");
    auto measured = UnloadedMs(bed, calibration);
    if (!measured) return tl::make_unexpected(measured.error());
    calibration.unloaded_ms = *measured;
  }
  calibration.limit_ms = kLatencyLimit * calibration.unloaded_ms;
  calibration.stated = spec.capacity_rps.has_value();
  std::vector<JointCost> costs;
  const auto full = spec.capacity_rps ? Result<double>(*spec.capacity_rps)
                                      : FullRate(bed, watch, calibration, on_step, costs);
  if (!full) return tl::make_unexpected(full.error());
  calibration.full_rps = *full;
  if (spec.predict && !calibration.stated) {
    auto units = MeasuredFastEnough(std::move(calibration.units), calibration.full_rps,
                                    [&] { return MeasureUnits(bed, watch, on_step); });
    if (!units) return tl::make_unexpected(units.error());
    calibration.units = std::move(*units);
    const double slowdown =
        spec.capacity_under == SPW_UNIT_WRR
            ? SlowdownTogether(UnitsOf(spec.testbed), calibration.units, calibration.full_rps, costs)
            : 1;
    for (Calibration::Unit& unit : calibration.units) unit.rps /= slowdown;
  }
  return calibration;
}

}  // namespace spillway::lab

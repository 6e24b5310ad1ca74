// SPDX-License-Identifier: Apache-2.0
#include "calibration.h"

#include <fmt/format.h>

#include <thread>

#include "capacity_search.h"
#include "compute_capacity.h"
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

// Closed loop: with requests always waiting, a server wakes less often and answers more than it can when
// they come one by one.
Result<double> UpperBound(const Bed& bed, const UnitPlan& unit) {
  auto sample = bed.LoadIdle(unit.address, 0, bed.spec().calibrate_seconds);
  if (!sample) return tl::make_unexpected(sample.error());
  const double rps = static_cast<double>(sample->latencies_ms.size()) / sample->seconds;
  if (rps >= 1) return rps;
  return Fail(ErrorCode::kSystem,
              fmt::format("{} does not answer at {}", unit.label, unit.address.ToString()));
}

// The highest open-loop rate without loss, by halving the interval.
Result<double> HighestRate(const Bed& bed, const UnitPlan& unit, double bound) {
  constexpr int kHalvings = 4;  // of the upper half: to 3 % of the bound
  double low = bound / 2, high = bound;
  for (int i = 0; i < kHalvings; i++) {
    const double rate = (low + high) / 2;
    auto sample = bed.LoadIdle(unit.address, rate, bed.spec().calibrate_seconds);
    if (!sample) return tl::make_unexpected(sample.error());
    const bool good =
        AnsweredPct(*sample, ProvisionalLimit(bed.spec())) >= 100 - bed.spec().tolerated_loss_pct;
    (good ? low : high) = rate;
  }
  return low;
}

// The rate at which a unit's quota is used up, from the CPU time an answer takes at a high load without
// a standing queue. Counting CPU time, not losses: what else this machine does then disturbs little.
Result<double> QuotaRate(const Bed& bed, const UnitPlan& unit, double bound) {
  constexpr double kHighLoad = 0.8;
  const auto before = bed.testbed().CpuTimeOf(unit.label);
  auto sample = bed.LoadIdle(unit.address, bound * kHighLoad, bed.spec().calibrate_seconds);
  if (!sample) return tl::make_unexpected(sample.error());
  const std::chrono::duration<double> used = bed.testbed().CpuTimeOf(unit.label) - before;
  const double share = std::chrono::duration<double>(unit.spec.quota->quota) / unit.spec.quota->period;
  if (used.count() <= 0 || sample->latencies_ms.empty())
    return Fail(ErrorCode::kSystem, fmt::format("{}: no CPU time or no answer to measure", unit.label));
  return share * static_cast<double>(sample->latencies_ms.size()) / used.count();
}

Result<double> CapacityOfComputing(const Bed& bed, const UnitPlan& unit) {
  const LoadAt load = [&](double rate, double seconds) -> Result<MeteredSample> {
    const auto before = bed.testbed().CpuTimeOf(unit.label);
    auto sample = bed.LoadIdle(unit.address, rate, seconds);
    if (!sample) return tl::make_unexpected(sample.error());
    return MeteredSample{std::move(*sample), bed.testbed().CpuTimeOf(unit.label) - before};
  };
  return ComputeCapacity(unit.spec, CpusOf(bed.testbed().spec()), bed.spec().calibrate_seconds, load)
      .map_error([&](Error error) {
        error.message = fmt::format("{} at {}: {}", unit.label, unit.address.ToString(), error.message);
        return error;
      });
}

double EmulatedRate(const UnitSpec& unit) {
  return unit.emulated.workers / std::chrono::duration<double>(unit.emulated.service).count();
}

Result<double> UnitCapacity(const Bed& bed, const UnitPlan& unit) {
  if (unit.spec.runs == Workload::kEmulated) return EmulatedRate(unit.spec);
  if (Computes(unit.spec.runs)) return CapacityOfComputing(bed, unit);
  auto bound = UpperBound(bed, unit);
  if (!bound) return bound;
  if (!unit.spec.quota) return HighestRate(bed, unit, *bound);
  // No unit does more than it did with requests always waiting: part of a quota may stay unused.
  return QuotaRate(bed, unit, *bound).map([&](double rate) { return std::min(rate, *bound); });
}

Result<Quartiles> Unloaded(const Bed& bed, const UnitPlan& unit, double unit_rps) {
  const Pace pace = Computes(unit.spec.runs)
                        ? UnloadedPace(unit_rps, bed.spec().calibrate_seconds)
                        : Pace{std::max(1.0, unit_rps / 10), bed.spec().calibrate_seconds};
  return bed.LoadIdle(unit.address, pace.rate, pace.seconds).map([&](const Sample& sample) {
    const auto at = [&](double percent) {
      return LatencyPercentile(sample, percent, bed.ProvisionalTimeoutS());
    };
    return Quartiles{at(25), at(50), at(75), at(99)};
  });
}

// For the simulator: each kind of unit alone, at its own address.
Result<void> MeasureUnits(const Bed& bed, const OnStep& on_step, Calibration& calibration) {
  const auto& units = bed.testbed().plan().units;
  for (size_t i = 0; i < units.size(); i++) {
    on_step(0.6 * static_cast<double>(i) / static_cast<double>(units.size()),
            fmt::format("what {} answers alone", units[i].label));
    size_t same = 0;
    while (same < i && !SameKind(units[same].spec, units[i].spec)) same++;
    if (same < i) {
      calibration.units.push_back(calibration.units[same]);
      calibration.units.back().label = units[i].label;
      calibration.units.back().measured = false;
      continue;
    }
    const auto rps = UnitCapacity(bed, units[i]);
    if (!rps) return tl::make_unexpected(rps.error());
    auto latency = Unloaded(bed, units[i], *rps);
    if (!latency) return tl::make_unexpected(latency.error());
    calibration.units.push_back({units[i].label, *rps, true, *latency});
  }
  return {};
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

PolicyRun WrrOf(const Bed& bed) {
  return {"wrr", SPW_UNIT_WRR, bed.service().server_policy, bed.spec().testbed.balancer};
}

// Of a lone request to a host CPU.
Result<double> UnloadedMs(Bed& bed, const Calibration& calibration) {
  const UnitSpec& first = bed.testbed().plan().units.front().spec;
  const double floor =
      first.quota ? std::chrono::duration<double, std::milli>(first.quota->period).count() : 0;
  if (!calibration.units.empty()) return std::max(floor, calibration.units.front().unloaded->median_ms);
  constexpr double kRequests = 20;  // at least, for the median
  PolicyRun host_only = WrrOf(bed);
  host_only.unit_policy = SPW_UNIT_HOST_ONLY;
  if (auto set = bed.Balance(host_only); !set) return tl::make_unexpected(set.error());
  const double rate = FirstRate(bed.spec().testbed) / 2;
  const double seconds = std::max(kRequests / rate, 1.0);
  return bed.LoadIdle(bed.service().vip, rate, seconds).map([&](const Sample& sample) {
    return std::max(floor, LatencyPercentile(sample, 50, bed.ProvisionalTimeoutS()));
  });
}

Result<double> FullRate(Bed& bed, MachineWatch& watch, const Calibration& calibration,
                        const OnStep& on_step) {
  if (auto set = bed.Balance(WrrOf(bed)); !set) return tl::make_unexpected(set.error());
  constexpr double kExpected = 18;  // slices that a search takes
  // An overload by a hundredth delays the last requests of a slice by a hundredth of its length. So that one
  // by more than kHiddenOverload is not taken for capacity, slices are long and answers late by that measure,
  // too.
  constexpr double kHiddenOverload = 0.05, kMinSliceUnloaded = 100;
  const double seconds = std::max(bed.spec().seconds, kMinSliceUnloaded * calibration.unloaded_ms / 1e3);
  const double limit_ms = std::min(calibration.limit_ms, kHiddenOverload * seconds * 1e3);
  // A hundredth of a slice's requests may be lost, so that one must not decide; but a slice has to end.
  constexpr double kMinRequests = 100, kMaxSeconds = 8;
  int tried = 0;
  const Sustains sustains = [&](double rate, int slices) -> Result<bool> {
    double sent = 0, in_time = 0;
    for (int i = 0; i < slices; i++) {
      on_step(0.65 + 0.35 * std::min(1.0, tried++ / kExpected),
              fmt::format("what it sustains under wrr: {:.0f} requests/s", rate));
      auto slice = PlaySlice(bed, watch, rate, std::max(seconds, std::min(kMaxSeconds, kMinRequests / rate)),
                             calibration.TimeoutS(), bed.spec().seed + tried);
      if (!slice) return tl::make_unexpected(slice.error());
      if (slice->sample.sent == 0) continue;  // a slice too short for a request has lost none
      sent += static_cast<double>(slice->sample.sent);
      in_time += AnsweredPct(slice->sample, limit_ms) / 100 * static_cast<double>(slice->sample.sent);
    }
    return in_time >= sent * (1 - bed.spec().tolerated_loss_pct / 100);
  };
  return HighestSustained(FirstRate(bed.spec().testbed), sustains);
}

}  // namespace

size_t CpusOf(const TestbedSpec& testbed) {
  return testbed.cpus.units.empty() ? std::thread::hardware_concurrency() : testbed.cpus.units.size();
}

Result<Calibration> Calibrate(Bed& bed, MachineWatch& watch, const OnStep& on_step) {
  const ExperimentSpec& spec = bed.spec();
  Calibration calibration;
  if (spec.predict)
    if (auto measured = MeasureUnits(bed, on_step, calibration); !measured)
      return tl::make_unexpected(measured.error());
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
  const auto full =
      spec.capacity_rps ? Result<double>(*spec.capacity_rps) : FullRate(bed, watch, calibration, on_step);
  if (!full) return tl::make_unexpected(full.error());
  calibration.full_rps = *full;
  return calibration;
}

}  // namespace spillway::lab

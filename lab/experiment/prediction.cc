// SPDX-License-Identifier: Apache-2.0
#include "lab/experiment/prediction.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "joint_work.h"
#include "lab/testbed/workloads.h"
#include "report/percentile.h"
#include "sim/random.h"
#include "sim/run.h"
#include "sim/station.h"

namespace spillway::lab {

namespace {

constexpr int kRepeats = 40;      // of a slice, each with requests of its own
constexpr double kMaxSpread = 1;  // coefficient of variation; beyond, it is not the service that scatters
constexpr double kIqrOfNormal = 1.349;                          // in standard deviations
constexpr double kUnloadedShare = 0.1;                          // as the lab measures it
constexpr sim::Duration kWire = std::chrono::microseconds(20);  // veth, and a switch in between
// A quota is enforced at the kernel's ticks: CONFIG_HZ is 250 in the distributions' kernels. At 1000 or with
// NO_HZ_FULL units overrun less than is predicted.
constexpr sim::Duration kKernelTick = std::chrono::milliseconds(4);
constexpr sim::Duration kReportDelay = std::chrono::microseconds(200);
constexpr sim::Duration kBurst = std::chrono::milliseconds(20);  // and the pause after it
constexpr double kRestS = 0.5;  // between slices, while the bed settles and the client starts
// What every hundredth lone request takes beyond the model is put down to wake-ups that come late, twice as
// many, so that half of them are above the percentile that was measured.
constexpr double kLateWakes = 0.02;
// Beside a process that is always busy, one in the same control group gets half of the time.
constexpr double kNeighbourSlowdown = 2;

sim::Duration FromSeconds(double s) { return sim::Duration(std::llround(s * 1e9)); }

// That a unit works on at a time.
uint32_t Parallel(const UnitSpec& unit, size_t cpus) {
  const size_t workers = Computes(unit.runs) ? WorkersOf(unit) : 1;  // nsd, knotd and nginx are given one
  return static_cast<uint32_t>(std::max<size_t>(1, std::min(workers, cpus)));
}

sim::UnitProfile ProfileOf(const UnitSpec& unit, const Calibration::Unit& measured, size_t cpus) {
  sim::UnitProfile profile;
  profile.name = measured.label;
  profile.kind = unit.kind;
  profile.capacity = unit.capacity;
  profile.queue_limit = QueueLimitOf(unit);
  profile.workers_known = false;  // the lab's agents are not told
  profile.shares_cpus = unit.runs != Workload::kEmulated;
  if (unit.runs == Workload::kEmulated) {
    profile.workers = unit.emulated.workers;
    profile.service = unit.emulated.service;
    profile.fixed = unit.emulated.latency;
  } else {
    profile.workers = Parallel(unit, cpus);
    if (unit.quota && QuotaShare(*unit.quota) < profile.workers)
      profile.cpu_quota = {unit.quota->quota, unit.quota->period, kKernelTick};
    profile.service = FromSeconds(profile.sustained_workers() / measured.rps);
  }
  return profile;
}

// What the neighbour does, once the unit alone has been fitted.
void AddNeighbour(const UnitSpec& unit, sim::UnitProfile& profile) {
  if (!unit.neighbour) return;
  profile.interference.neighbour = {.every = unit.neighbour->every,
                                    .length = unit.neighbour->busy,
                                    .slowdown = kNeighbourSlowdown,
                                    .regular = true};
}

sim::Arrivals ArrivalsOf(ArrivalProcess process) {
  sim::Arrivals arrivals;
  switch (process) {
    case ArrivalProcess::kConstant:
      arrivals.kind = sim::ArrivalKind::kConstant;
      break;
    case ArrivalProcess::kPoisson:
      arrivals.kind = sim::ArrivalKind::kPoisson;
      break;
    case ArrivalProcess::kBursty:
      arrivals.kind = sim::ArrivalKind::kOnOff;
      arrivals.on = arrivals.off = kBurst;
      break;
  }
  return arrivals;
}

// Of the profile alone at the lab's unloaded pace, with service times that do not vary.
Quartiles UnloadedOf(const sim::UnitProfile& profile, double rps, ArrivalProcess arrivals) {
  constexpr int kRequests = 4000;
  sim::Station station(profile, 1, sim::Duration(0));
  sim::Random random(1);
  std::vector<double> latencies;
  double now = 0;
  for (int i = 0; i < kRequests; i++) {
    const double gaps = arrivals == ArrivalProcess::kConstant ? 1 : random.Exponential();
    now += gaps / (kUnloadedShare * rps) * 1e9;
    const auto at = static_cast<sim::Time>(now);
    station.Forget(at);
    if (auto latency = station.Place(at, 1)) latencies.push_back(static_cast<double>(*latency) / 1e6);
  }
  std::sort(latencies.begin(), latencies.end());
  const auto quantile = [&](double percent) { return report::Percentile(latencies, percent); };
  return {quantile(25), quantile(50), quantile(75), quantile(99)};
}

// Whether the data plane places each request anew.
bool PlacesEachRequest(const ExperimentSpec& spec) {
  return std::any_of(spec.testbed.services.begin(), spec.testbed.services.end(), [&](const ServiceSpec& one) {
    return one.name == spec.service && one.affinity == SPW_AFFINITY_NONE;
  });
}

double Scatter(const Quartiles& q) { return (q.upper_ms - q.lower_ms) / kIqrOfNormal; }

}  // namespace

sim::App AppOf(const ExperimentSpec& spec, const Calibration& calibration, size_t cpus) {
  sim::App app;
  app.name = spec.name;
  app.joint_rps = calibration.full_rps;
  app.cv = 0;
  double weighted = 0, weights = 0;  // the units' spreads, by what they answer
  size_t at = 0, working = 0;        // workers that may want a CPU at a time
  for (const ServerSpec& server : spec.testbed.servers) {
    sim::ServerGroup group;
    for (const UnitSpec& unit : server.units) {
      const Calibration::Unit& measured = calibration.units[at++];
      sim::UnitProfile profile = ProfileOf(unit, measured, cpus);
      double cv = unit.runs == Workload::kEmulated ? unit.emulated.cv : 0;
      if (measured.unloaded) {
        profile.fixed = sim::Duration(0);
        const Quartiles model = UnloadedOf(profile, measured.rps, spec.arrivals);
        const double more_ms = std::max(0.0, measured.unloaded->median_ms - model.median_ms);
        profile.fixed = FromSeconds(more_ms / 1e3);
        const double scatter = Scatter(*measured.unloaded), stalls = Scatter(model);
        const double service_ms = std::chrono::duration<double, std::milli>(profile.service).count() /
                                  std::min(1.0, profile.cpu_quota.share());
        if (unit.runs != Workload::kEmulated)
          cv = std::sqrt(std::max(0.0, scatter * scatter - stalls * stalls)) / service_ms;
        if (measured.unloaded->p99_ms && unit.runs != Workload::kEmulated) {
          const double late_ms = *measured.unloaded->p99_ms - (*model.p99_ms + more_ms);
          if (late_ms > 0)
            profile.interference.pause = {
                .share = kLateWakes, .length = FromSeconds(late_ms / 1e3), .on_wake = true};
        }
      }
      AddNeighbour(unit, profile);
      if (profile.shares_cpus) working += profile.workers;
      weighted += measured.rps * std::min(cv, kMaxSpread);
      weights += measured.rps;
      group.units.push_back(std::move(profile));
    }
    app.groups.push_back(std::move(group));
  }
  if (weights > 0) app.cv = weighted / weights;
  if (working > cpus) app.shared_cpus = static_cast<uint32_t>(cpus);
  return app;
}

sim::Reports ReportsOf(const AgentSpec& agent) {
  sim::Reports reports;
  reports.name = agent.mode;
  reports.period = agent.mode == "periodic" ? agent.period : agent.heartbeat;
  reports.delay = kReportDelay;
  reports.learned = true;
  if (agent.mode != "periodic") reports.check = sim::Duration{0};
  return reports;
}

Forecast Predict(const ExperimentSpec& spec, const Calibration& calibration,
                 const std::vector<sim::App>& apps, const PolicyRun& policy, double load_pct) {
  const sim::Arrivals arrivals = ArrivalsOf(spec.arrivals);
  const AgentSpec& agent = policy.AgentOf(spec.testbed);
  sim::Reports reports = ReportsOf(agent);
  // p4mite reads the busy bit alone, each change of which is reported at once. The lab's agents have reported
  // before the first request; in the simulator those that report by a heartbeat would be silent till the
  // first.
  if (policy.unit_policy == SPW_UNIT_P4MITE)
    reports.period = std::min<sim::Duration>(reports.period, agent.period);
  sim::PolicyChoice choice;
  choice.name = policy.name;
  choice.unit_policy = policy.unit_policy;
  choice.server_policy = policy.server_policy;
  choice.trigger.threshold = agent.threshold;
  choice.trigger.second_report = agent.second_report_after;

  sim::RunSetup setup;
  setup.arrivals = &arrivals;
  setup.reports = &reports;
  setup.policy = &choice;
  setup.rate_rps = calibration.full_rps * spec.RatePctAt(load_pct) / 100;
  setup.work = spec.WorkAt(load_pct);
  setup.wire = kWire;
  setup.requests = static_cast<uint64_t>(std::max(1.0, std::round(setup.rate_rps * spec.seconds)));
  // Agents have met the load before, in slices whose queues have been worked off since.
  const double overload = std::max(0.0, setup.rate_rps * setup.work / calibration.full_rps - 1);
  setup.warm_up = setup.requests;
  setup.rest = FromSeconds(kRestS + overload * spec.seconds);
  if (spec.client == LoadClient::kDnsperf) {
    setup.flows = kDnsperfSockets;
    setup.flows_in_turn = true;
    setup.flows_are_spread = PlacesEachRequest(spec);
  }
  setup.silent_after = std::chrono::seconds(3);
  const double timeout_ms = calibration.TimeoutS() * 1e3;
  sim::Latencies answered;
  uint64_t requests = 0;
  double loss = 0;
  for (int i = 0; i < kRepeats; i++) {
    sim::App app = apps[static_cast<size_t>(i) % apps.size()];
    for (sim::ServerGroup& group : app.groups)
      for (sim::UnitProfile& unit : group.units) unit.quota_known = agent.cgroup;
    setup.app = &app;
    // The lab's limit, which the simulator wants in unloaded latencies of the first unit.
    const sim::Station first(app.groups.front().units.front(), setup.work, kWire);
    setup.loss_over_unloaded = calibration.limit_ms * 1e6 / static_cast<double>(first.unloaded());
    setup.seed = static_cast<uint64_t>(i) + 1;
    const sim::RunResult result = sim::Run(setup, &answered);
    requests += result.requests;
    loss += result.loss / kRepeats;
  }
  // Of all slices together, as the lab's; the dropped stand above all that were answered.
  const auto percentile = [&](double share) {
    const double rank = share * static_cast<double>(requests);
    if (rank > static_cast<double>(answered.count())) return timeout_ms;
    return std::min(answered.QuantileNs(rank / static_cast<double>(answered.count())) / 1e6, timeout_ms);
  };
  return {percentile(0.5), percentile(0.99), loss};
}

namespace {

// The units as fast as they were in each of the row's slices, by what their packets cost: the machine's speed
// differs from second to second. Where that can't be told, once, as they were calibrated.
std::vector<sim::App> AppsAt(const ExperimentSpec& spec, const Calibration& calibration, size_t cpus,
                             const Row& row) {
  std::vector<sim::App> apps;
  if (spec.grow != ExperimentSpec::Grow::kWork) {  // else answers cost more by intent
    for (const SliceWork& slice : row.work) {
      const auto factors =
          CostsOverAlone(UnitsOf(spec.testbed), calibration.units, slice.units, slice.answered);
      if (!factors) continue;
      Calibration then = calibration;
      for (size_t i = 0; i < factors->size(); i++) then.units[i].rps /= (*factors)[i];
      apps.push_back(AppOf(spec, then, cpus));
    }
  }
  if (apps.empty()) apps.push_back(AppOf(spec, calibration, cpus));
  return apps;
}

}  // namespace

void AddPredictions(const ExperimentSpec& spec, const Calibration& calibration, size_t cpus,
                    std::vector<Row>& rows) {
  for (Row& row : rows)
    for (const PolicyRun& policy : spec.policies)  // what a balancer on the NIC costs is not known
      if (policy.name == row.policy && policy.balancer == BalancerPlace::kSwitch)
        row.predicted =
            Predict(spec, calibration, AppsAt(spec, calibration, cpus, row), policy, row.load_pct);
}

std::optional<double> P99OverPredicted(const Row& row) {
  if (!row.predicted || row.predicted->p99_ms <= 0 || row.p99_ms <= 0) return std::nullopt;
  return row.p99_ms / row.predicted->p99_ms;
}

std::optional<Agreement> AgreementOf(const std::vector<Row>& rows) {
  Agreement agreement;
  for (const Row& row : rows) {
    const auto ratio = P99OverPredicted(row);
    if (!ratio) continue;
    agreement.points++;
    if (*ratio > Agreement::kFactor || *ratio < 1 / Agreement::kFactor)
      agreement.deviations.push_back({row.policy, row.load_pct, *ratio});
    for (const Row& other : rows) {
      if (other.load_pct != row.load_pct || !P99OverPredicted(other)) continue;
      if (other.p99_ms <= row.p99_ms * Agreement::kFactor) continue;
      agreement.pairs++;
      if (row.predicted->p99_ms >= other.predicted->p99_ms)
        agreement.reversals.push_back({row.load_pct, row.policy, other.policy});
    }
  }
  if (agreement.points == 0) return std::nullopt;
  return agreement;
}

std::string AgreementText(const Agreement& agreement) {
  std::vector<std::string> deviations, reversals;
  for (const auto& one : agreement.deviations)
    deviations.push_back(fmt::format("{} at {:.0f} % ({:.2f})", one.policy, one.load_pct, one.ratio));
  for (const auto& one : agreement.reversals)
    reversals.push_back(fmt::format("{} below {} at {:.0f} %", one.lower, one.higher, one.load_pct));
  std::string text = fmt::format("Lab against simulator: p99 within a factor of {:g} at {} of {} points",
                                 Agreement::kFactor, agreement.within(), agreement.points);
  if (!deviations.empty())
    text += fmt::format("; not, measured over simulated: {}", fmt::join(deviations, ", "));
  text +=
      fmt::format(".\n  Order of policies, where measured p99 differ by more: the same for {} of {} pairs",
                  agreement.in_order(), agreement.pairs);
  if (!reversals.empty())
    text += fmt::format("; as measured, but not as simulated: {}", fmt::join(reversals, ", "));
  return text + ".\n";
}

}  // namespace spillway::lab

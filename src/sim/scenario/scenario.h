// SPDX-License-Identifier: Apache-2.0
// A scenario in memory: what is simulated. Plain values; docs/sim.md explains every key of the file
// (scenario_reader.h). A sweep runs every app x arrivals x reports x axis value x policy.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/policy.h"

namespace spillway::sim {

using Duration = std::chrono::nanoseconds;

// Distribution of the service multiplier, whose mean is 1.
enum class Spread { kLognormal, kExponential, kBimodal };

// Of Spread::kBimodal: such a share of requests takes so many times as long as the others do.
struct Bimodal {
  double heavy_share = 0.05, heavy_ratio = 10;
  bool operator==(const Bimodal&) const = default;
};

// CPU time as a control group's quota gives it out: so much in every period, and none till the next.
struct CpuQuota {
  Duration quota{0}, period{0};  // period 0: no limit
  // The kernel stops who runs only at a tick of its timer; what is used beyond the quota by then is taken
  // from the next periods. 0: exact.
  Duration tick{0};
  double share() const {  // CPUs
    return period.count() > 0 ? static_cast<double>(quota.count()) / static_cast<double>(period.count()) : 1;
  }
  bool operator==(const CpuQuota&) const = default;
};

// What keeps a unit from working at its speed. Zero lengths and shares: nothing does.
struct Interference {
  struct Stall {  // nothing is worked on for so long, once in each `every`
    Duration every{0}, length{0};
    bool operator==(const Stall&) const = default;
  } stall;
  struct Pause {  // a request's start is late by so much, with this probability
    double share = 0;
    Duration length{0};
    bool on_wake = false;  // only where the worker slept
    bool operator==(const Pause&) const = default;
  } pause;
  struct Neighbour {  // comes after a mean of `every`, stays for a mean of `length`, both exponential
    Duration every{0}, length{0};
    double slowdown = 1;
    bool regular = false;  // once in each `every`, for `length` exactly
    bool operator==(const Neighbour&) const = default;
  } neighbour;
  struct Drift {  // speed 1 + amplitude * sin
    Duration period{0};
    double amplitude = 0;
    bool operator==(const Drift&) const = default;
  } drift;
  struct Cold {  // from the run's beginning, fading linearly
    Duration length{0};
    double slowdown = 1;
    bool operator==(const Cold&) const = default;
  } cold;
  struct FailsFast {  // answers everything with an error, so long after it came
    Duration from{0}, until{0}, after{0};
    bool operator==(const FailsFast&) const = default;
  } fails_fast;
  bool operator==(const Interference&) const = default;
};

// A unit: `workers` servers with one FIFO queue. An unloaded request takes service + fixed; the fixed
// part occupies nobody.
struct UnitProfile {
  std::string name;
  spw_unit_kind kind = SPW_KIND_CPU;
  double capacity = 1;  // relative, as in the pool file: what weights are made of
  uint32_t workers = 1;
  Duration service{0};  // mean
  Duration fixed{0};
  uint32_t queue_limit = 1u << 20;  // requests in the unit; one more is dropped
  // With a period, `service` is CPU time, which all workers draw from one quota.
  CpuQuota cpu_quota = {};
  Interference interference = {};
  bool workers_known = true;  // false: its agent is not told how many workers it has
  bool quota_known = true;    // false: its agent does not read its control group's accounts
  bool shares_cpus = false;   // works on the app's shared CPUs
  Duration unloaded() const { return service + fixed; }
  // Workers that can be busy all the time.
  double sustained_workers() const {
    return cpu_quota.period.count() > 0 ? std::min<double>(workers, cpu_quota.share()) : workers;
  }
  // What it can answer for long, in requests per second.
  double sustained_rps() const {
    return sustained_workers() / std::chrono::duration<double>(service).count();
  }
  bool operator==(const UnitProfile&) const = default;
};

struct ServerGroup {
  uint32_t count = 1;
  std::vector<UnitProfile> units;  // in order of priority; at most SPW_UNITS_PER_SERVER
  bool operator==(const ServerGroup&) const = default;
};

// A unit that answers nothing from `at` to `until`: what it holds then is lost. The switch is told
// `noticed` later (0: never; then only its silence tells).
struct Failure {
  uint32_t server = 0, unit = 0;
  Duration at{0}, until{0};
  std::optional<Duration> noticed;
  bool operator==(const Failure&) const = default;
};

enum class ArrivalKind { kPoisson, kConstant, kTrace, kOnOff, kJump, kOverload };

struct Arrivals {
  ArrivalKind kind = ArrivalKind::kPoisson;
  std::string name;        // in rows: "poisson", "constant", the trace file's name, ...
  std::vector<double> at;  // trace: seconds, ascending; repeated, and scaled to the wanted rate
  Duration on{0}, off{0};  // on-off: Poisson while on, faster, so that the mean is the wanted rate
  double low = 1;          // jump: Poisson at low * rate and at rate in turns, the former first,
  double times = 1;        // overload: evenly, at first at times * rate, then at rate
  Duration every{0};       // jump: each for so long; overload: the first
  bool operator==(const Arrivals&) const = default;
};

// When agents report, and how reports travel.
struct Reports {
  std::string name;
  Duration period{0};    // 0: at every answer
  Duration delay{0};     // from the event to the moment when the switch has it, the wire included
  Duration jitter{0};    // uniform, on top of delay; reports may overtake each other and are then stale
  double loss = 0;       // share of reports lost, 0..1
  bool learned = false;  // base, span and slot as an agent learns them; false: as they are
  Duration check{std::chrono::milliseconds(1)};  // learned: between reports, of the switch's view; 0: never
  bool Checks() const { return check > Duration{0} && check < period; }
  bool operator==(const Reports&) const = default;
};

// What an app has of its own in place of the scenario's.
struct Overrides {
  std::vector<Arrivals> arrivals;
  std::vector<Reports> reports;
  std::vector<double> load_pct;  // only where the scenario sweeps load
  std::optional<Duration> wire;
  std::optional<uint64_t> requests, warm_up;
  std::optional<uint32_t> runs, flows;
  std::optional<spw_server_policy> server_policy;  // of policies that name none
  bool operator==(const Overrides&) const = default;
};

struct App {
  std::string name;
  std::vector<ServerGroup> groups;
  double joint_rps = 0;   // 100 % load; 0: the sum of what its units sustain
  Duration threshold{0};  // of p4mite's trigger
  Spread spread = Spread::kLognormal;
  double cv = 0.2;  // of the service multiplier; exponential: 1
  std::vector<Failure> failures;
  Bimodal bimodal = {};
  uint32_t shared_cpus = 0;  // on which all units work that say so; no file has them, the lab's beds do
  Overrides own = {};
  bool operator==(const App&) const = default;
};

enum class AxisKind { kLoad, kRate, kWork };

// What is swept: load in percent of joint_rps; requests per second; or the work of a request, as a
// factor of its service time, at a fixed rate.
struct Axis {
  AxisKind kind = AxisKind::kLoad;
  std::string name = "load_pct";  // row key
  std::vector<double> values;
  double rate_rps = 0;  // kWork only
  bool operator==(const Axis&) const = default;
};

enum class DeciderKind {
  kSwitch,      // core/policy.h on what the switch knows
  kOmniscient,  // knows the remaining work of every unit of the server exactly; a bound, not a policy
  // Policies published elsewhere (baselines/decider.h).
  kPrequal,
  kC3,
  kPeakEwma,
  kLeastRequest,
  kJiq,
  kScd,
};
inline bool IsBaseline(DeciderKind kind) { return kind >= DeciderKind::kPrequal; }

// With so many units or fewer, prequal knows all of them by their reports, unless it is told to probe.
inline constexpr size_t kMaxReportedPrequalUnits = 8;

// What a baseline's publication leaves to the operator.
struct BaselineChoice {
  double quantile = 0.84;                    // prequal: of recent RIFs, up to which a unit is cold
  std::optional<bool> probes;                // prequal: else by the number of units
  Duration decay{std::chrono::seconds(10)};  // peak-ewma
  double bias = 1;                           // least-request
  // Chooses among the units of the server that the ring names; else among those of all servers.
  bool within_server = false;
  bool operator==(const BaselineChoice&) const = default;
};

// p4mite's agent: a unit is busy while answers take longer than the threshold.
struct BusyTrigger {
  // Thresholds to try, each a run of its own; the row is the run with the least p99: what a threshold tuned
  // for the very load would give. In units of the app's threshold, or of the unit's unloaded latency.
  std::vector<double> tries = {1};
  bool of_unloaded = false;
  std::optional<Duration> threshold;  // instead of the app's
  Duration second_report{0};          // > 0: available again so long after each trip
  bool operator==(const BusyTrigger&) const = default;
};

// Balances in user space on a unit's core instead of in the switch: every request first queues there.
struct FrontEnd {
  Duration service{0};  // per request; 0: the switch, which adds nothing
  bool operator==(const FrontEnd&) const = default;
};

struct PolicyChoice {
  std::string name;
  DeciderKind decider = DeciderKind::kSwitch;
  spw_server_policy server_policy = SPW_SERVER_MAGLEV;
  spw_unit_policy unit_policy = SPW_UNIT_HEADROOM;
  bool server_policy_named = false;  // else an app may have its own
  bool units_as_servers = false;     // each unit a server of its own: wcmp and p2c over units
  // kOmniscient: weights tried, each a run of its own; the row is the run with the least p99.
  std::vector<double> wait_weights = {1}, work_weights = {0};
  BusyTrigger trigger;
  FrontEnd front;
  BaselineChoice baseline;
  bool operator==(const PolicyChoice&) const = default;
};

struct Scenario {
  std::string name;
  std::vector<App> apps;
  std::vector<Arrivals> arrivals;
  std::vector<Reports> reports;
  Axis axis;
  std::vector<PolicyChoice> policies;
  Duration wire{std::chrono::microseconds(50)};  // switch to unit
  uint64_t requests = 100'000;                   // measured, per run
  uint64_t warm_up = 10'000;                     // before them, not measured
  uint32_t runs = 1;                             // of each point and policy, with seeds of their own
  uint32_t flows = 0;                            // requests come from so many 5-tuples; 0: each from its own
  uint32_t switches = 1;  // routers spread requests over them by hash; each sees its own
  uint64_t seed = 1;
  double loss_over_unloaded = 10;  // later than so many unloaded latencies is lost (P4Mite, ICNP 2022)
  Duration silent_after{std::chrono::seconds(3)};
  bool operator==(const Scenario&) const = default;

  const std::vector<Arrivals>& ArrivalsOf(const App& app) const {
    return app.own.arrivals.empty() ? arrivals : app.own.arrivals;
  }
  const std::vector<Reports>& ReportsOf(const App& app) const {
    return app.own.reports.empty() ? reports : app.own.reports;
  }
  const std::vector<double>& ValuesOf(const App& app) const {
    return app.own.load_pct.empty() ? axis.values : app.own.load_pct;
  }
};

}  // namespace spillway::sim

// SPDX-License-Identifier: Apache-2.0
#include "experiment_spec.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>

#include "lab/testbed/spec_reader.h"
#include "model/scalars.h"

namespace spillway::lab {
namespace {

using yaml::Field;
using yaml::MapReader;
using yaml::Problems;

void ReadSeconds(Problems& problems, const Field* field, double& into) {
  if (field == nullptr) return;
  if (auto time = ReadMicros(problems, *field, Micros(200'000), Micros(3600'000'000)))
    into = static_cast<double>(time->count()) / 1e6;
}

void ReadLoads(Problems& problems, const Field& field, std::vector<double>& loads) {
  loads.clear();
  for (const Field& entry : yaml::ReadList(problems, field, "a list of percentages, such as [20, 50, 80]"))
    if (auto pct = ReadNumber(problems, entry, 0.1, 300)) loads.push_back(*pct);
  if (loads.empty() || !std::is_sorted(loads.begin(), loads.end()))
    problems.Add(field.line, field.path, "expected percentages in ascending order");
}

spw_server_policy ServerPolicyOf(const TestbedSpec& testbed, const std::string& service) {
  for (const ServiceSpec& s : testbed.services)
    if (s.name == service) return s.server_policy;
  return SPW_SERVER_MAGLEV;
}

void ReadPolicies(Problems& problems, const Field& field, const std::string& service, TestbedSpec& testbed,
                  std::vector<PolicyRun>& policies) {
  std::set<std::string> names;
  for (const Field& entry : yaml::ReadList(problems, field, "a list of policies")) {
    MapReader map(problems, entry, {"name", "unit_policy", "server_policy", "balancer", "agent"});
    PolicyRun run;
    run.server_policy = ServerPolicyOf(testbed, service);
    run.balancer = testbed.balancer;
    if (const Field* f = map.Find("balancer"))
      if (auto place = ReadBalancerPlace(problems, *f)) run.balancer = *place;
    if (run.balancer == BalancerPlace::kNic && !testbed.nic_balancers) {
      testbed.nic_balancers = true;
      CheckNicBalancers(problems, entry, testbed);
    }
    if (const Field* f = map.Need("name", "a name"))
      if (auto name = yaml::ReadName(problems, *f)) run.name = *name;
    if (const Field* f = map.Need("unit_policy", "a unit policy"))
      if (auto p = model::ReadWord<spw_unit_policy>(problems, *f, model::ParseUnitPolicy, SPW_UNIT_POLICIES))
        run.unit_policy = *p;
    yaml::Take(run.server_policy, map.Find("server_policy"), [&](const Field& f) {
      return model::ReadWord<spw_server_policy>(problems, f, model::ParseServerPolicy, SPW_SERVER_POLICIES);
    });
    if (const Field* f = map.Find("agent")) ReadAgentSettings(problems, *f, run.agent.emplace(testbed.agent));
    if (!names.insert(run.name).second) problems.Add(entry.line, entry.path, "duplicate name");
    policies.push_back(run);
  }
  if (policies.empty()) problems.Add(field.line, field.path, "expected at least one policy");
}

// Keys that `quick:` may set anew.
void ReadExtent(Problems& problems, const MapReader& map, ExperimentSpec& spec) {
  if (const Field* f = map.Find("load_pct")) ReadLoads(problems, *f, spec.load_pct);
  ReadSeconds(problems, map.Find("seconds"), spec.seconds);
  ReadSeconds(problems, map.Find("calibrate"), spec.calibrate_seconds);
  if (const Field* f = map.Find("rounds"))
    if (auto n = yaml::ReadInteger(problems, *f, 1, 1000)) spec.rounds = static_cast<int>(*n);
  if (const Field* f = map.Find("further"))
    if (auto n = yaml::ReadInteger(problems, *f, 0, 20)) spec.further = static_cast<int>(*n);
  if (const Field* f = map.Find("capacity_within_pct"))
    if (auto pct = ReadNumber(problems, *f, 1, 50)) spec.capacity_within_pct = *pct;
}

// The units of lab/unit and lab/compute have one protocol; the client also speaks HTTP.
bool SpeaksSpillwayLoad(Workload workload) {
  return workload == Workload::kEmulated || workload == Workload::kNginx || Computes(workload);
}

template <class Matches>
bool AnyUnit(const TestbedSpec& testbed, Matches matches) {
  for (const ServerSpec& server : testbed.servers)
    for (const UnitSpec& unit : server.units)
      if (matches(unit.runs)) return true;
  return false;
}

void ReadPath(Problems& problems, const Field& field, ExperimentSpec& spec) {
  const auto text = yaml::ReadText(problems, field, "a path, such as /100k");
  if (!text) return;
  spec.path = *text;
  if (!text->starts_with('/'))
    problems.Add(field.line, field.path, "expected a path, such as /100k, got " + yaml::Describe(field.node));
  if (!AnyUnit(spec.testbed, [](Workload w) { return w == Workload::kNginx; }))
    problems.Add(field.line, field.path, "expected units that run nginx, which alone are asked for a path");
}

void ReadArrivals(Problems& problems, const Field& field, ExperimentSpec& spec) {
  const auto choice = yaml::ReadChoice(problems, field, {"constant", "poisson", "bursty"});
  if (!choice) return;
  spec.arrivals = static_cast<ArrivalProcess>(*choice);
  if (spec.client == LoadClient::kDnsperf && spec.arrivals != ArrivalProcess::kConstant)
    problems.Add(field.line, field.path,
                 "expected constant: dnsperf, which asks nsd and knot, sends at constant gaps only");
}

void ReadClient(Problems& problems, const Field& field, LoadClient& client) {
  auto text = yaml::ReadText(problems, field, "one of dnsperf, spillway-load");
  if (!text) return;
  if (*text == "dnsperf")
    client = LoadClient::kDnsperf;
  else if (*text == "spillway-load")
    client = LoadClient::kSpillwayLoad;
  else
    problems.Add(field.line, field.path,
                 "expected one of dnsperf, spillway-load, got " + yaml::Describe(field.node));
}

// Each client speaks a protocol of its own.
void CheckClient(Problems& problems, const Field& field, const ExperimentSpec& spec) {
  for (const ServerSpec& server : spec.testbed.servers)
    for (const UnitSpec& unit : server.units) {
      const bool ours = SpeaksSpillwayLoad(unit.runs);
      if (unit.runs == Workload::kNone || ours == (spec.client == LoadClient::kSpillwayLoad)) continue;
      problems.Add(field.line, field.path + ".client",
                   fmt::format("expected {}, which is what speaks to {}-{}",
                               ours ? "spillway-load" : "dnsperf", server.name, unit.name));
      return;
    }
}

// What the simulator would need, or nullopt: it can predict this. Behind `nat` a unit's answer to a client of
// its own address comes from the VIP: it cannot be measured alone. Nor can nginx, to which our client cannot
// speak in a closed loop.
std::optional<std::string> WantsForPrediction(const ExperimentSpec& spec) {
  if (AnyUnit(spec.testbed, [](Workload w) { return w == Workload::kNginx; }))
    return "expected units other than nginx, which cannot be measured one by one";
  const bool measured =
      AnyUnit(spec.testbed, [](Workload w) { return w != Workload::kNone && w != Workload::kEmulated; });
  for (const ServiceSpec& service : spec.testbed.services)
    if (measured && service.name == spec.service && service.mode == SPW_MODE_NAT)
      return "expected another mode than nat, behind which units cannot be measured one by one";
  return std::nullopt;
}

void CheckPrediction(Problems& problems, const Field& field, const ExperimentSpec& spec) {
  if (!spec.predict) return;
  if (const auto wants = WantsForPrediction(spec)) problems.Add(field.line, field.path + ".predict", *wants);
}

void ReadGrow(Problems& problems, const Field& field, ExperimentSpec& spec) {
  auto text = yaml::ReadText(problems, field, "one of rate, work");
  if (!text) return;
  if (*text != "rate" && *text != "work") {
    problems.Add(field.line, field.path, "expected one of rate, work, got " + yaml::Describe(field.node));
    return;
  }
  spec.grow = *text == "work" ? ExperimentSpec::Grow::kWork : ExperimentSpec::Grow::kRate;
  const bool fixed =
      AnyUnit(spec.testbed, [](Workload w) { return w != Workload::kSynthetic && w != Workload::kEmulated; });
  if (spec.grow == ExperimentSpec::Grow::kWork && fixed)
    problems.Add(field.line, field.path, "expected synthetic or emulated units, whose work can be set");
}

template <class Enum>
std::string Words(int count) {
  std::string words;
  for (int value = 0; value < count; value++)
    words += (value == 0 ? "" : ", ") + model::ToString(static_cast<Enum>(value));
  return words;
}

void ReadBody(Problems& problems, const Field& field, bool quick, ExperimentSpec& spec) {
  MapReader map(problems, field,
                {"name", "service", "client", "arrivals", "path", "policies", "load_pct", "seconds",
                 "calibrate", "rounds", "further", "capacity_rps", "capacity_within_pct", "capacity_under",
                 "unloaded_ms", "tolerated_loss_pct", "predict", "grow", "quick"});
  if (const Field* f = map.Need("name", "a name"))
    if (auto name = yaml::ReadName(problems, *f)) spec.name = *name;
  if (const Field* f = map.Need("service", "a service of the testbed"))
    if (auto name = yaml::ReadName(problems, *f)) {
      spec.service = *name;
      if (std::none_of(spec.testbed.services.begin(), spec.testbed.services.end(),
                       [&](const ServiceSpec& s) { return s.name == *name; }))
        problems.Add(f->line, f->path, "expected a service of the testbed, got " + yaml::Describe(f->node));
    }
  spec.client = AnyUnit(spec.testbed, SpeaksSpillwayLoad) ? LoadClient::kSpillwayLoad : LoadClient::kDnsperf;
  if (const Field* f = map.Find("client")) ReadClient(problems, *f, spec.client);
  CheckClient(problems, field, spec);
  if (spec.client == LoadClient::kSpillwayLoad) spec.arrivals = ArrivalProcess::kPoisson;
  if (const Field* f = map.Find("path")) ReadPath(problems, *f, spec);
  if (const Field* f = map.Find("arrivals")) ReadArrivals(problems, *f, spec);
  if (const Field* f = map.Need("policies", "a list of policies"))
    ReadPolicies(problems, *f, spec.service, spec.testbed, spec.policies);
  (void)map.Need("load_pct", "a list of percentages, such as [20, 50, 80]");
  ReadExtent(problems, map, spec);
  if (const Field* f = map.Find("capacity_rps")) spec.capacity_rps = ReadNumber(problems, *f, 1, 1e8);
  if (const Field* f = map.Find("capacity_under"))
    if (auto p = model::ReadWord<spw_unit_policy>(problems, *f, model::ParseUnitPolicy, SPW_UNIT_POLICIES))
      spec.capacity_under = *p;
  if (spec.capacity_rps && map.Find("capacity_under") != nullptr)
    problems.Add(field.line, field.path + ".capacity_under", "not allowed with capacity_rps");
  if (const Field* f = map.Find("unloaded_ms")) spec.unloaded_ms = ReadNumber(problems, *f, 0.001, 1e6);
  if (const Field* f = map.Find("tolerated_loss_pct"))
    if (auto pct = ReadNumber(problems, *f, 0, 50)) spec.tolerated_loss_pct = *pct;
  if (const Field* f = map.Find("predict"))
    if (auto truth = yaml::ReadBool(problems, *f)) spec.predict = *truth;
  if (const Field* f = map.Find("grow")) ReadGrow(problems, *f, spec);
  CheckPrediction(problems, field, spec);
  if (spec.further > 0 && spec.grow == ExperimentSpec::Grow::kWork)
    problems.Add(field.line, field.path + ".further", "expected grow: rate");
  if (const Field* f = map.Find("quick")) {
    ExperimentSpec unused;
    MapReader part(problems, *f,
                   {"load_pct", "seconds", "calibrate", "rounds", "further", "capacity_within_pct"});
    ReadExtent(problems, part, quick ? spec : unused);
  }
}

}  // namespace

std::string ToString(ArrivalProcess arrivals) {
  return arrivals == ArrivalProcess::kConstant  ? "constant"
         : arrivals == ArrivalProcess::kPoisson ? "poisson"
                                                : "bursty";
}

Result<void> Override(const Overrides& overrides, ExperimentSpec& spec) {
  if (!overrides.load_pct.empty()) {
    spec.load_pct = overrides.load_pct;
    spec.further = 0;
  }
  if (!std::is_sorted(spec.load_pct.begin(), spec.load_pct.end()))
    std::sort(spec.load_pct.begin(), spec.load_pct.end());
  if (overrides.rounds) spec.rounds = *overrides.rounds;
  if (overrides.seconds) spec.seconds = *overrides.seconds;
  if (overrides.seed) spec.seed = *overrides.seed;
  if (overrides.capacity_rps) spec.capacity_rps = overrides.capacity_rps;
  if (!overrides.policies.empty()) {
    spec.policies.clear();
    spec.baseline = 0;
  }
  for (const std::string& name : overrides.policies) {
    PolicyRun run;
    run.name = name;
    run.balancer = spec.testbed.balancer;
    const size_t plus = name.find('+');
    const auto unit = model::ParseUnitPolicy(plus == std::string::npos ? name : name.substr(plus + 1));
    const auto server = plus == std::string::npos ? ServerPolicyOf(spec.testbed, spec.service)
                                                  : model::ParseServerPolicy(name.substr(0, plus));
    if (!unit || !server)
      return Fail(
          ErrorCode::kBadInput,
          fmt::format("--policies: {}: expected UNIT_POLICY or SERVER_POLICY+UNIT_POLICY, of {} and {}", name,
                      Words<spw_unit_policy>(SPW_UNIT_POLICIES),
                      Words<spw_server_policy>(SPW_SERVER_POLICIES)));
    run.unit_policy = *unit;
    run.server_policy = *server;
    for (const PolicyRun& other : spec.policies)
      if (other.name == name)
        return Fail(ErrorCode::kBadInput, fmt::format("--policies: duplicate policy {}", name));
    spec.policies.push_back(run);
  }
  spec.predict = overrides.predict;
  if (const auto wants = overrides.predict ? WantsForPrediction(spec) : std::nullopt)
    return Fail(ErrorCode::kBadInput, "--predict: " + *wants);
  if (!overrides.baseline) return {};
  const auto found = std::find_if(spec.policies.begin(), spec.policies.end(),
                                  [&](const PolicyRun& p) { return p.name == *overrides.baseline; });
  if (found == spec.policies.end()) {
    std::string names;
    for (const PolicyRun& p : spec.policies) names += (names.empty() ? "" : ", ") + p.name;
    return Fail(ErrorCode::kBadInput,
                fmt::format("--baseline: expected one of {}, got {}", names, *overrides.baseline));
  }
  spec.baseline = static_cast<size_t>(found - spec.policies.begin());
  return {};
}

TestbedSpec WithWork(TestbedSpec testbed, double factor) {
  for (ServerSpec& server : testbed.servers)
    for (UnitSpec& unit : server.units) {
      unit.synthetic.gflop *= factor;
      unit.emulated.service =
          Micros(std::llround(static_cast<double>(unit.emulated.service.count()) * factor));
    }
  return testbed;
}

Result<ExperimentSpec> LoadExperiment(const std::string& path, bool quick) {
  ExperimentSpec spec;
  auto testbed = LoadTestbed(path);
  if (!testbed) return tl::make_unexpected(testbed.error());
  auto root = LoadYaml(path);
  if (!root) return tl::make_unexpected(root.error());
  spec.testbed = std::move(*testbed);
  spec.folder = std::filesystem::path(path).parent_path();
  Problems problems(path);
  const LabFile file = ReadLabFile(problems, *root);
  spec.description = file.description;
  if (!file.experiment)
    problems.Add(1, "experiment", "expected a map, got nothing");
  else
    ReadBody(problems, *file.experiment, quick, spec);
  if (!problems.none()) return tl::make_unexpected(problems.ToError());
  return spec;
}

}  // namespace spillway::lab

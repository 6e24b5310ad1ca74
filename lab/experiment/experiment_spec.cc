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

using model::Field;
using model::MapReader;
using model::Problems;

void ReadSeconds(Problems& problems, const Field* field, double& into) {
  if (field == nullptr) return;
  if (auto time = ReadMicros(problems, *field, Micros(200'000), Micros(3600'000'000)))
    into = static_cast<double>(time->count()) / 1e6;
}

void ReadLoads(Problems& problems, const Field& field, std::vector<double>& loads) {
  loads.clear();
  for (const Field& entry : model::ReadList(problems, field, "a list of percentages, such as [20, 50, 80]"))
    if (auto pct = ReadNumber(problems, entry, 0.1, 300)) loads.push_back(*pct);
  if (loads.empty() || !std::is_sorted(loads.begin(), loads.end()))
    problems.Add(field.line, field.path, "expected percentages in ascending order");
}

void ReadPolicies(Problems& problems, const Field& field, TestbedSpec& testbed,
                  std::vector<PolicyRun>& policies) {
  std::set<std::string> names;
  for (const Field& entry : model::ReadList(problems, field, "a list of policies")) {
    MapReader map(problems, entry, {"name", "unit_policy", "balancer"});
    PolicyRun run;
    run.balancer = testbed.balancer;
    if (const Field* f = map.Find("balancer"))
      if (auto place = ReadBalancerPlace(problems, *f)) run.balancer = *place;
    if (run.balancer == BalancerPlace::kNic && !testbed.nic_balancers) {
      testbed.nic_balancers = true;
      CheckNicBalancers(problems, entry, testbed);
    }
    if (const Field* f = map.Need("name", "a name"))
      if (auto name = model::ReadName(problems, *f)) run.name = *name;
    if (const Field* f = map.Need("unit_policy", "a unit policy"))
      if (auto p = model::ReadWord<spw_unit_policy>(problems, *f, model::ParseUnitPolicy, SPW_UNIT_POLICIES))
        run.unit_policy = *p;
    if (!names.insert(run.name).second) problems.Add(entry.line, entry.path, "expected a name of its own");
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
    if (auto n = model::ReadInteger(problems, *f, 1, 1000)) spec.rounds = static_cast<int>(*n);
}

void ReadClient(Problems& problems, const Field& field, LoadClient& client) {
  auto text = model::ReadText(problems, field, "one of dnsperf, spillway-load");
  if (!text) return;
  if (*text == "dnsperf")
    client = LoadClient::kDnsperf;
  else if (*text == "spillway-load")
    client = LoadClient::kSpillwayLoad;
  else
    problems.Add(field.line, field.path,
                 "expected one of dnsperf, spillway-load, got " + model::Describe(field.node));
}

// The units of lab/unit and lab/compute have one protocol.
bool SpeaksSpillwayLoad(Workload workload) { return workload == Workload::kEmulated || Computes(workload); }

template <class Matches>
bool AnyUnit(const TestbedSpec& testbed, Matches matches) {
  for (const ServerSpec& server : testbed.servers)
    for (const UnitSpec& unit : server.units)
      if (matches(unit.runs)) return true;
  return false;
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

// Behind `nat` a unit's answer to a client of its own address comes from the VIP: it cannot be measured
// alone.
void CheckCapacityIsKnown(Problems& problems, const Field& field, const ExperimentSpec& spec) {
  const bool measured =
      AnyUnit(spec.testbed, [](Workload w) { return w != Workload::kNone && w != Workload::kEmulated; });
  if (spec.capacity_rps || !measured) return;
  for (const ServiceSpec& service : spec.testbed.services)
    if (service.name == spec.service && service.mode == SPW_MODE_NAT)
      problems.Add(field.line, field.path + ".capacity_rps",
                   "expected the joint capacity: behind mode nat, units cannot be measured one by one");
}

void ReadGrow(Problems& problems, const Field& field, ExperimentSpec& spec) {
  auto text = model::ReadText(problems, field, "one of rate, work");
  if (!text) return;
  if (*text != "rate" && *text != "work") {
    problems.Add(field.line, field.path, "expected one of rate, work, got " + model::Describe(field.node));
    return;
  }
  spec.grow = *text == "work" ? ExperimentSpec::Grow::kWork : ExperimentSpec::Grow::kRate;
  const bool fixed =
      AnyUnit(spec.testbed, [](Workload w) { return w != Workload::kSynthetic && w != Workload::kEmulated; });
  if (spec.grow == ExperimentSpec::Grow::kWork && fixed)
    problems.Add(field.line, field.path, "expected synthetic or emulated units, whose work can be set");
}

void ReadBody(Problems& problems, const Field& field, bool quick, ExperimentSpec& spec) {
  MapReader map(problems, field,
                {"name", "service", "client", "policies", "load_pct", "seconds", "calibrate", "rounds",
                 "capacity_rps", "unloaded_ms", "tolerated_loss_pct", "predict", "grow", "quick"});
  if (const Field* f = map.Need("name", "a name"))
    if (auto name = model::ReadName(problems, *f)) spec.name = *name;
  if (const Field* f = map.Need("service", "a service of the testbed"))
    if (auto name = model::ReadName(problems, *f)) {
      spec.service = *name;
      if (std::none_of(spec.testbed.services.begin(), spec.testbed.services.end(),
                       [&](const ServiceSpec& s) { return s.name == *name; }))
        problems.Add(f->line, f->path, "expected a service of the testbed, got " + model::Describe(f->node));
    }
  spec.client = AnyUnit(spec.testbed, SpeaksSpillwayLoad) ? LoadClient::kSpillwayLoad : LoadClient::kDnsperf;
  if (const Field* f = map.Find("client")) ReadClient(problems, *f, spec.client);
  CheckClient(problems, field, spec);
  if (const Field* f = map.Need("policies", "a list of policies"))
    ReadPolicies(problems, *f, spec.testbed, spec.policies);
  (void)map.Need("load_pct", "a list of percentages, such as [20, 50, 80]");
  ReadExtent(problems, map, spec);
  if (const Field* f = map.Find("capacity_rps")) spec.capacity_rps = ReadNumber(problems, *f, 1, 1e8);
  if (const Field* f = map.Find("unloaded_ms")) spec.unloaded_ms = ReadNumber(problems, *f, 0.001, 1e6);
  if (const Field* f = map.Find("tolerated_loss_pct"))
    if (auto pct = ReadNumber(problems, *f, 0, 50)) spec.tolerated_loss_pct = *pct;
  if (const Field* f = map.Find("predict"))
    if (auto truth = model::ReadBool(problems, *f)) spec.predict = *truth;
  if (const Field* f = map.Find("grow")) ReadGrow(problems, *f, spec);
  CheckCapacityIsKnown(problems, field, spec);
  if (spec.predict && spec.capacity_rps)
    problems.Add(field.line, field.path + ".predict",
                 "expected no capacity_rps: it takes what each unit answers, not all together");
  if (const Field* f = map.Find("quick")) {
    ExperimentSpec unused;
    MapReader part(problems, *f, {"load_pct", "seconds", "calibrate", "rounds"});
    ReadExtent(problems, part, quick ? spec : unused);
  }
}

}  // namespace

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
  if (!file.experiment)
    problems.Add(1, "experiment", "expected a map, got nothing");
  else
    ReadBody(problems, *file.experiment, quick, spec);
  if (!problems.none()) return tl::make_unexpected(problems.ToError());
  return spec;
}

}  // namespace spillway::lab

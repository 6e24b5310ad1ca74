// SPDX-License-Identifier: Apache-2.0
#include "planner/check/plan_scenario.h"

#include <algorithm>
#include <cmath>
#include <span>

namespace spillway::planner {
namespace {

constexpr double kNsPerMs = 1e6;

NodeKind Serving(const Workload& workload) {
  return workload.Baseline(NodeKind::kAccelerator) != nullptr ? NodeKind::kAccelerator
                                                              : NodeKind::kLiteCompute;
}

int WorkersPerNode(const Catalogue& catalogue, const Group& group) {
  return group.kind == NodeKind::kAccelerator ? group.DevicesPerNode() : catalogue.nodes[group.node].cores;
}

spw_unit_kind KindOf(const Catalogue& catalogue, const Group& group) {
  if (group.kind == NodeKind::kAccelerator) return SPW_KIND_GPU;
  return catalogue.nodes[group.node].platform == Platform::kServer ? SPW_KIND_CPU : SPW_KIND_SMARTNIC;
}

// Requests per second of the baseline: what every share of time is relative to.
double BaselineRps(const PlanInput& input) {
  const Group& group = *input.workload.Baseline(Serving(input.workload));
  return group.nodes * WorkersPerNode(input.catalogue, group) / (input.workload.requests.service_ms / 1000);
}

}  // namespace

ServingUnits UnitsOf(const ClusterModel& model, const Mix& mix, const std::string& name) {
  const PlanInput& input = model.input();
  std::vector<Group> serving;
  for (const Group& group : mix.groups)
    if (group.kind == Serving(input.workload)) serving.push_back(group);
  const double baseline_rps = BaselineRps(input);

  ServingUnits units;
  units.app.name = name;
  units.app.cv = input.workload.requests.cv;
  for (const Group& group : serving) {
    double node_rps = baseline_rps / (model.Evaluate(mix).slowdown * group.nodes);
    if (serving.size() > 1) {
      Group one = group;
      one.nodes = 1;
      const GroupTime time = model.TimeOf(group.kind, model.ResourcesOf(one, mix.fabric));
      node_rps = baseline_rps / (time.own + time.storage);
    }
    const int workers = WorkersPerNode(input.catalogue, group);
    sim::UnitProfile unit;
    unit.name = input.catalogue.nodes[group.node].name;
    unit.kind = KindOf(input.catalogue, group);
    unit.capacity = node_rps;
    unit.workers = static_cast<uint32_t>(workers);
    unit.service = sim::Duration(std::llround(workers / node_rps * 1000 * kNsPerMs));
    units.app.groups.push_back({static_cast<uint32_t>(group.nodes), {unit}});
    units.workers += group.nodes * workers;
    units.capacity_rps += group.nodes * node_rps;
  }
  units.service_ms = 1000 * units.workers / units.capacity_rps;
  return units;
}

sim::Scenario ScenarioOf(const ServingUnits& units, double rate_rps, uint32_t waiting, uint64_t requests,
                         uint64_t seed) {
  sim::Scenario scenario;
  scenario.name = units.app.name;
  scenario.apps = {units.app};
  for (sim::ServerGroup& group : scenario.apps[0].groups)
    for (sim::UnitProfile& unit : group.units) unit.queue_limit = unit.workers + waiting;
  scenario.arrivals = {{sim::ArrivalKind::kPoisson, "poisson", {}}};
  sim::Reports reports;
  reports.name = "answered";
  reports.delay = std::chrono::microseconds(1100);
  scenario.reports = {reports};
  scenario.axis = {sim::AxisKind::kRate, "rps", {rate_rps}, 0};
  for (const auto& [policy, server_policy] :
       {std::pair{"wcmp", SPW_SERVER_WCMP}, std::pair{"p2c", SPW_SERVER_P2C}}) {
    sim::PolicyChoice choice;
    choice.name = policy;
    choice.server_policy = server_policy;
    scenario.policies.push_back(choice);
  }
  scenario.requests = requests;
  scenario.warm_up = requests / 4;
  scenario.seed = seed;
  scenario.loss_over_unloaded = 1e6;
  return scenario;
}

}  // namespace spillway::planner

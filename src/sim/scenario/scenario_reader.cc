// SPDX-License-Identifier: Apache-2.0
#include "sim/scenario/scenario_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "base/yaml/documents.h"
#include "base/yaml/scalars.h"
#include "sim/scenario/readers.h"

namespace spillway::sim {
namespace {

using yaml::Field;
using yaml::MapReader;
using yaml::Problems;

void ReadWork(Problems& problems, const Field& field, Axis& axis) {
  MapReader map(problems, field, {"rps", "factors"});
  axis.kind = AxisKind::kWork;
  axis.name = "work";
  Take(axis.rate_rps, map.Need("rps", "requests per second"),
       [&](const Field& f) { return yaml::ReadNumber(problems, f, 1e-3, 1e9); });
  Take(axis.values, map.Need("factors", "a list of factors of the service times"),
       [&](const Field& f) { return ReadNumbers(problems, f, 1e-3, 1e6, true); });
}

// Without any of them, it is the load where `all_apps_have_their_own`.
Axis ReadAxis(Problems& problems, const Field& field, const MapReader& map, bool all_apps_have_their_own) {
  Axis axis;
  const Field *load = map.Find("load_pct"), *rps = map.Find("rps"), *work = map.Find("work");
  const int given = (load != nullptr) + (rps != nullptr) + (work != nullptr);
  if (given == 0 && all_apps_have_their_own) return axis;
  if (given != 1 && map.is_map())
    problems.Add(field.line, field.path,
                 fmt::format("expected one of load_pct, rps and work, got {} of them", given));
  if (load != nullptr)
    Take(axis.values, load, [&](const Field& f) { return ReadNumbers(problems, f, 0.01, 1000, true); });
  if (rps != nullptr) {
    axis.kind = AxisKind::kRate;
    axis.name = "rps";
    Take(axis.values, rps, [&](const Field& f) { return ReadNumbers(problems, f, 1e-3, 1e9, true); });
  }
  if (work != nullptr) ReadWork(problems, *work, axis);
  return axis;
}

void ReadExtent(Problems& problems, const MapReader& map, Scenario& scenario) {
  Take(scenario.requests, map.Find("requests"), [&](const Field& f) { return ReadRequests(problems, f); });
  scenario.warm_up = ReadWarmUp(problems, map).value_or(scenario.requests / 10);
  Take(scenario.runs, map.Find("runs"), [&](const Field& f) { return ReadRuns(problems, f); });
  Take(scenario.flows, map.Find("flows"), [&](const Field& f) { return ReadFlows(problems, f); });
  if (const Field* f = map.Find("switches"))
    if (auto n = yaml::ReadInteger(problems, *f, 1, 64)) scenario.switches = static_cast<uint32_t>(*n);
  Take(scenario.seed, map.Find("seed"),
       [&](const Field& f) { return yaml::ReadInteger(problems, f, 0, UINT64_MAX); });
}

// Each list has a bound of its own; what a sweep holds is by their products.
constexpr uint64_t kMaxPoints = 200'000;   // rows, all in memory
constexpr uint64_t kMaxEntries = 200'000;  // servers times switches, a table entry of 1 KiB each

void CheckSize(Problems& problems, const Field& field, const Scenario& scenario) {
  uint64_t points = 0;
  for (const App& app : scenario.apps) {
    points += uint64_t{scenario.ArrivalsOf(app).size()} * scenario.ValuesOf(app).size() *
              scenario.ReportsOf(app).size() * scenario.policies.size();
    uint64_t servers = 0;
    for (const ServerGroup& group : app.groups) servers += group.count;
    if (servers * scenario.switches > kMaxEntries)
      problems.Add(
          field.line, field.path,
          fmt::format("expected at most {} servers of app {}, as each of {} switches knows all, got {}",
                      kMaxEntries / scenario.switches, app.name, scenario.switches, servers));
  }
  if (points > kMaxPoints)
    problems.Add(
        field.line, field.path,
        fmt::format("expected at most {} rows (apps, their arrivals, loads and reports, each with each "
                    "policy), got {}",
                    kMaxPoints, points));
}

Scenario ReadScenario(Problems& problems, const Field& field, const std::string& folder) {
  MapReader map(
      problems, field,
      {"name", "apps", "arrivals", "load_pct", "rps", "work", "reports", "policies", "wire", "requests",
       "warm_up", "runs", "cold_start", "flows", "switches", "seed", "loss_over_unloaded", "silent_after"});
  Scenario scenario;
  Take(scenario.name, map.Need("name", "a name"),
       [&](const Field& f) { return yaml::ReadName(problems, f); });
  std::vector<AppEntry> apps;
  if (const Field* f = map.Need("apps", "a list of apps")) apps = ReadApps(problems, *f, folder);
  for (const AppEntry& entry : apps) scenario.apps.push_back(entry.app);
  scenario.arrivals.resize(1);
  scenario.arrivals[0].name = "poisson";
  if (const Field* f = map.Find("arrivals")) scenario.arrivals = ReadArrivals(problems, *f, folder);
  scenario.reports = {DefaultReports()};
  if (const Field* f = map.Find("reports")) scenario.reports = ReadReports(problems, *f);
  const bool all_have_their_own =
      !scenario.apps.empty() &&
      std::ranges::none_of(scenario.apps, [](const App& app) { return app.own.load_pct.empty(); });
  scenario.axis = ReadAxis(problems, field, map, all_have_their_own);
  for (const App& app : scenario.apps)
    if (!app.own.load_pct.empty() && scenario.axis.kind != AxisKind::kLoad)
      problems.Add(
          field.line, field.path,
          fmt::format("expected load_pct, as app {} has its own, got {}", app.name, scenario.axis.name));
  if (const Field* f = map.Need("policies", "a list of policies"))
    scenario.policies = ReadPolicies(problems, *f, apps);
  Take(scenario.wire, map.Find("wire"), [&](const Field& f) { return ReadWire(problems, f); });
  ReadExtent(problems, map, scenario);
  Take(scenario.loss_over_unloaded, map.Find("loss_over_unloaded"),
       [&](const Field& f) { return yaml::ReadNumber(problems, f, 1, 1e6); });
  Take(scenario.silent_after, map.Find("silent_after"),
       [&](const Field& f) { return yaml::ReadTime(problems, f, std::chrono::milliseconds(10), kMaxTime); });
  if (problems.none()) CheckSize(problems, field, scenario);
  return scenario;
}

Scenario ReadFile(Problems& problems, const std::vector<YAML::Node>& documents, const std::string& folder) {
  if (documents.size() > 1) {
    problems.Add(documents[1].Mark().line + 1, "", "expected one document, got another");
    return {};
  }
  MapReader map(problems, Field{"", 1, documents.empty() ? YAML::Node() : documents[0]}, {"sim"});
  const Field* field = map.Need("sim", "a map");
  return field != nullptr ? ReadScenario(problems, *field, folder) : Scenario();
}

}  // namespace

Result<Scenario> ParseScenario(std::string_view text, const std::string& file_name) {
  Problems problems(file_name);
  Scenario scenario;
  yaml::ReadDocuments(problems, std::string(text), [&](const std::vector<YAML::Node>& documents) {
    scenario = ReadFile(problems, documents, std::filesystem::path(file_name).parent_path().string());
  });
  if (!problems.none()) return tl::make_unexpected(problems.ToError());
  return scenario;
}

std::vector<std::string> Doubts(const Scenario& scenario, const std::string& path) {
  std::vector<std::string> doubts;
  const auto look = [&](const std::string& key, const std::vector<double>& loads) {  // they ascend
    if (!loads.empty() && loads.front() < 1 && loads.back() <= 1)
      doubts.push_back(fmt::format("{}: {} is in percent: {} is {} %, did you mean {:g}?",
                                   yaml::InputName(path), key, loads.front(), loads.front(),
                                   100 * loads.front()));
  };
  if (scenario.axis.kind == AxisKind::kLoad) look("sim.load_pct", scenario.axis.values);
  for (const App& app : scenario.apps) look(fmt::format("sim.apps[{}].load_pct", app.name), app.own.load_pct);
  return doubts;
}

Result<Scenario> LoadScenario(const std::string& path) {
  const auto text = yaml::ReadInput(path);
  if (!text) return tl::make_unexpected(text.error());
  return ParseScenario(*text, yaml::InputName(path));
}

}  // namespace spillway::sim

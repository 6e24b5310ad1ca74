// SPDX-License-Identifier: Apache-2.0
#include "sim/scenario_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "model/documents.h"
#include "model/scalars.h"
#include "sim/app_reader.h"
#include "sim/policy_reader.h"
#include "sim/scenario_scalars.h"
#include "sim/trace_reader.h"

namespace spillway::sim {
namespace {

using model::Field;
using model::MapReader;
using model::Problems;

constexpr Duration kLongest = std::chrono::hours(1);
// From an answer to the moment when the switch has the report: as P4Mite's were calibrated.
constexpr Duration kReportDelay = std::chrono::microseconds(1100);

Arrivals ReadArrival(Problems& problems, const Field& field, const std::string& folder) {
  Arrivals arrivals;
  if (!field.node.IsMap()) {
    if (auto word = ReadChoice(problems, field, {"poisson", "constant"})) {
      arrivals.kind = *word == 0 ? ArrivalKind::kPoisson : ArrivalKind::kConstant;
      arrivals.name = field.node.Scalar();
    }
    return arrivals;
  }
  MapReader map(problems, field, {"trace"});
  const Field* trace = map.Need("trace", "the path of a file with a time in seconds per line");
  if (trace == nullptr) return arrivals;
  const auto text = model::ReadText(problems, *trace, "the path of a file with a time in seconds per line");
  if (!text) return arrivals;
  const auto path = (std::filesystem::path(folder) / *text).lexically_normal();
  arrivals.kind = ArrivalKind::kTrace;
  arrivals.name = path.stem().string();
  if (auto times = LoadTrace(path.string()))
    arrivals.at = std::move(*times);
  else
    problems.Add(trace->line, trace->path, "expected a trace, got " + times.error().message);
  return arrivals;
}

std::vector<Arrivals> ReadArrivals(Problems& problems, const Field& field, const std::string& folder) {
  std::vector<Arrivals> all;
  std::set<std::string> names;
  const char* expected = "a list of poisson, constant or {trace: FILE}";
  const auto entries = model::ReadList(problems, field, expected);
  if (field.node.IsSequence() && entries.empty())
    problems.Add(field.line, field.path, fmt::format("expected {}, got an empty list", expected));
  for (const Field& entry : entries) {
    all.push_back(ReadArrival(problems, entry, folder));
    if (!all.back().name.empty()) CheckOwnName(problems, entry, all.back().name, names);
  }
  return all;
}

std::string Milliseconds(Duration time) {
  return fmt::format("{}ms", static_cast<double>(time.count()) / 1e6);
}

// What makes it differ: "answered", "every-20ms-delay-100ms-loss-20pct".
std::string NameOf(const Reports& reports) {
  std::string name = reports.period.count() == 0 ? "answered" : "every-" + Milliseconds(reports.period);
  if (reports.delay != kReportDelay) name += "-delay-" + Milliseconds(reports.delay);
  if (reports.jitter.count() > 0) name += "-jitter-" + Milliseconds(reports.jitter);
  if (reports.loss > 0) name += fmt::format("-loss-{}pct", 100 * reports.loss);
  if (reports.learned) name += "-learned";
  return name;
}

Reports ReadOneReports(Problems& problems, const Field& field) {
  MapReader map(problems, field, {"name", "period", "delay", "jitter", "loss_pct", "learned"});
  Reports reports;
  reports.delay = kReportDelay;
  const auto time = [&](const Field& f) { return model::ReadTime(problems, f, Duration(0), kLongest); };
  Take(reports.period, map.Find("period"), time);
  Take(reports.delay, map.Find("delay"), time);
  Take(reports.jitter, map.Find("jitter"), time);
  if (const Field* f = map.Find("loss_pct"))
    if (auto pct = model::ReadNumber(problems, *f, 0, 100)) reports.loss = *pct / 100;
  Take(reports.learned, map.Find("learned"), [&](const Field& f) { return model::ReadBool(problems, f); });
  reports.name = NameOf(reports);
  Take(reports.name, map.Find("name"), [&](const Field& f) { return model::ReadName(problems, f); });
  return reports;
}

std::vector<Reports> ReadReports(Problems& problems, const Field& field) {
  std::vector<Reports> all;
  std::set<std::string> names;
  const auto entries = model::ReadList(problems, field, "a list of ways to report");
  if (field.node.IsSequence() && entries.empty())
    problems.Add(field.line, field.path, "expected at least one way to report, got an empty list");
  for (const Field& entry : entries) {
    all.push_back(ReadOneReports(problems, entry));
    CheckOwnName(problems, entry, all.back().name, names);
  }
  return all;
}

void ReadWork(Problems& problems, const Field& field, Axis& axis) {
  MapReader map(problems, field, {"rps", "factors"});
  axis.kind = AxisKind::kWork;
  axis.name = "work";
  Take(axis.rate_rps, map.Need("rps", "requests per second"),
       [&](const Field& f) { return model::ReadNumber(problems, f, 1e-3, 1e9); });
  Take(axis.values, map.Need("factors", "a list of factors of the service times"),
       [&](const Field& f) { return ReadNumbers(problems, f, 1e-3, 1e6, true); });
}

Axis ReadAxis(Problems& problems, const Field& field, const MapReader& map) {
  Axis axis;
  const Field *load = map.Find("load_pct"), *rps = map.Find("rps"), *work = map.Find("work");
  const int given = (load != nullptr) + (rps != nullptr) + (work != nullptr);
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
  Take(scenario.requests, map.Find("requests"),
       [&](const Field& f) { return model::ReadInteger(problems, f, 100, 10'000'000'000); });
  scenario.warm_up = scenario.requests / 10;
  Take(scenario.warm_up, map.Find("warm_up"),
       [&](const Field& f) { return model::ReadInteger(problems, f, 0, 10'000'000'000); });
  if (const Field* f = map.Find("switches"))
    if (auto n = model::ReadInteger(problems, *f, 1, 64)) scenario.switches = static_cast<uint32_t>(*n);
  Take(scenario.seed, map.Find("seed"),
       [&](const Field& f) { return model::ReadInteger(problems, f, 0, UINT64_MAX); });
}

Scenario ReadScenario(Problems& problems, const Field& field, const std::string& folder) {
  MapReader map(problems, field,
                {"name", "apps", "arrivals", "load_pct", "rps", "work", "reports", "policies", "wire",
                 "requests", "warm_up", "switches", "seed", "loss_over_unloaded", "silent_after"});
  Scenario scenario;
  Take(scenario.name, map.Need("name", "a name"),
       [&](const Field& f) { return model::ReadName(problems, f); });
  std::vector<AppEntry> apps;
  if (const Field* f = map.Need("apps", "a list of apps")) apps = ReadApps(problems, *f, folder);
  for (const AppEntry& entry : apps) scenario.apps.push_back(entry.app);
  scenario.arrivals = {{ArrivalKind::kPoisson, "poisson", {}}};
  if (const Field* f = map.Find("arrivals")) scenario.arrivals = ReadArrivals(problems, *f, folder);
  scenario.reports = {{}};
  scenario.reports[0].delay = kReportDelay;
  scenario.reports[0].name = NameOf(scenario.reports[0]);
  if (const Field* f = map.Find("reports")) scenario.reports = ReadReports(problems, *f);
  scenario.axis = ReadAxis(problems, field, map);
  if (const Field* f = map.Need("policies", "a list of policies"))
    scenario.policies = ReadPolicies(problems, *f, apps);
  Take(scenario.wire, map.Find("wire"),
       [&](const Field& f) { return model::ReadTime(problems, f, Duration(0), std::chrono::seconds(1)); });
  ReadExtent(problems, map, scenario);
  Take(scenario.loss_over_unloaded, map.Find("loss_over_unloaded"),
       [&](const Field& f) { return model::ReadNumber(problems, f, 1, 1e6); });
  Take(scenario.silent_after, map.Find("silent_after"),
       [&](const Field& f) { return model::ReadTime(problems, f, std::chrono::milliseconds(10), kLongest); });
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
  model::ReadDocuments(problems, std::string(text), [&](const std::vector<YAML::Node>& documents) {
    scenario = ReadFile(problems, documents, std::filesystem::path(file_name).parent_path().string());
  });
  if (!problems.none()) return tl::make_unexpected(problems.ToError());
  return scenario;
}

Result<Scenario> LoadScenario(const std::string& path) {
  const auto text = model::ReadInputFile(path);
  if (!text) return tl::make_unexpected(text.error());
  return ParseScenario(*text, path);
}

}  // namespace spillway::sim

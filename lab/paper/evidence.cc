// SPDX-License-Identifier: Apache-2.0
#include "evidence.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "report/percentile.h"
#include "sim/sweep.h"

namespace spillway::lab {
namespace {

constexpr double kToleratedLoss = 0.01;
constexpr double kRunSeconds = 30;  // of the paper's tests
constexpr double kJointRps =
    54.3;  // of the paper's synthetic requests: 45.5 of the host, 8.8 of the SmartNIC
constexpr double kGflopAtWork1 = 2;  // figures 4a and 4b

// "p4mite-300ms" and "p4mite-300" are one policy.
std::string PolicyName(std::string name) {
  if (name.starts_with("p4mite-") && name.ends_with("ms")) name.resize(name.size() - 2);
  return name;
}

// DNS has no second report: the paper sends one for computation-intensive applications.
std::optional<std::string> PublishedPolicy(const std::string& figure, const sim::PolicyChoice& policy) {
  if (policy.name == "p4mite-second") return figure == "5a" ? std::nullopt : std::optional("p4mite");
  if (policy.name == "p4mite" && (figure == "5b" || figure == "5c")) return std::nullopt;
  if (policy.name == "in-switch") return "switch";
  if (policy.name == "on-nic-core") return "nic";
  for (const char* name :
       {"p4mite", "p4mite-300ms", "p4mite-1000ms", "p4mite-2000ms", "host-only", "ecmp", "wrr"})
    if (policy.name == name) return PolicyName(policy.name);
  return std::nullopt;
}

double RateAt(const sim::Scenario& scenario, const sim::App& app, double value) {
  return scenario.axis.kind == sim::AxisKind::kRate   ? value
         : scenario.axis.kind == sim::AxisKind::kWork ? scenario.axis.rate_rps
                                                      : app.joint_rps * value / 100;
}

// How many times slower the paper's units are than the lab's emulated ones.
double TimeScale(const std::string& figure) {
  return figure == "5a" || figure == "6" ? 1 : figure == "5b" ? 5 : 10;
}

double Number(const nlohmann::json& row, const char* key) {
  const auto found = row.find(key);
  return found != row.end() && found->is_number() ? found->get<double>() : kUnknown;
}

std::string FigureOf(const std::string& experiment, const std::string& app) {
  if (experiment != "fig5") return experiment.substr(3);
  return app == "dns" ? "5a" : app == "vgg16" ? "5b" : "5c";
}

double LabX(const std::string& figure, const nlohmann::json& row) {
  if (figure == "4a") return Number(row, "load_pct") / 100 * kJointRps;
  if (figure == "4b") return Number(row, "work") * kGflopAtWork1;
  return Number(row, figure == "6" ? "rps" : "load_pct");
}

}  // namespace

std::vector<const PaperPoint*> PaperCurves::Of(const std::string& policy) const {
  std::vector<const PaperPoint*> found;
  for (const PaperPoint& point : points)
    if (point.policy == policy) found.push_back(&point);
  std::sort(found.begin(), found.end(), [](const auto* a, const auto* b) { return a->x < b->x; });
  return found;
}

const PaperPoint* PaperCurves::Near(const std::string& policy, double x, double reach) const {
  const PaperPoint* nearest = nullptr;
  for (const PaperPoint* point : Of(policy))
    if (std::abs(point->x - x) <= reach && (!nearest || std::abs(point->x - x) < std::abs(nearest->x - x)))
      nearest = point;
  return nearest;
}

std::optional<double> PaperCurves::Sustained(const std::string& policy) const {
  std::optional<double> highest;
  for (const PaperPoint* point : Of(policy)) {
    if (point->loss > kToleratedLoss) break;
    highest = point->x;
  }
  return highest;
}

std::optional<double> PaperCurves::LosesFrom(const std::string& policy) const {
  for (const PaperPoint* point : Of(policy))
    if (point->loss > kToleratedLoss) return point->x;
  return std::nullopt;
}

const std::vector<PaperScenario>& PaperScenarios() {
  static const std::vector<PaperScenario> kScenarios = {
      {"4a", "p4mite-fig4a.yaml", "varied", "", ""},
      {"4a", "p4mite-fig4a.yaml", "busy-host", "constant",
       "regular arrivals of requests that are all alike, on a host that sustains 43.5 requests/s"},
      {"4a", "p4mite-fig4a.yaml", "whole-nic", "", "all cores of the SmartNIC at work on one request"},
      {"4b", "p4mite-fig4b.yaml", "varied", "", ""},
      {"4b", "p4mite-fig4b.yaml", "busy-host", "constant",
       "regular arrivals of requests that are all alike, on a host that sustains 43.5 requests/s"},
      {"4b", "p4mite-fig4b.yaml", "whole-nic", "", "all cores of the SmartNIC at work on one request"},
      {"5a", "p4mite-fig5.yaml", "dns", "", ""},
      {"5a", "p4mite-fig5.yaml", "dns", "constant", "regular arrivals"},
      {"5b", "p4mite-fig5.yaml", "vgg16", "", ""},
      {"5b", "p4mite-fig5.yaml", "vgg16", "constant", "regular arrivals"},
      {"5c", "p4mite-fig5.yaml", "knn", "", ""},
      {"5c", "p4mite-fig5.yaml", "knn", "constant", "regular arrivals"},
      {"6", "p4mite-fig6.yaml", "light", "constant", ""},
  };
  return kScenarios;
}

PaperCurves SimulateAsPublished(const sim::Scenario& scenario, const PaperScenario& which, int repeats,
                                const std::function<bool()>& stop) {
  PaperCurves curves{which.reading, {}};
  sim::Scenario run = scenario;
  std::map<std::string, std::string> names;
  std::erase_if(run.apps, [&](const sim::App& app) { return app.name != which.app; });
  std::erase_if(run.policies, [&](const sim::PolicyChoice& policy) {
    const auto name = PublishedPolicy(which.figure, policy);
    if (name) names[policy.name] = *name;
    return !name;
  });
  std::erase_if(run.arrivals, [&](const sim::Arrivals& arrivals) {
    return arrivals.name != (which.arrivals.empty() ? "poisson" : which.arrivals);
  });
  if (run.apps.empty()) return curves;
  run.warm_up = 0;
  for (double value : run.ValuesOf(run.apps[0])) {
    std::map<std::string, std::vector<sim::RunResult>> results;
    run.axis.values = {value};
    run.apps[0].own.load_pct.clear();
    run.requests = static_cast<uint64_t>(std::ceil(kRunSeconds * RateAt(run, run.apps[0], value)));
    for (int i = 0; i < repeats && !stop(); i++) {
      run.seed = scenario.seed + static_cast<uint64_t>(i);
      for (const sim::Row& row : sim::RunSweep(run, 0, nullptr, stop).rows)
        results[row.policy].push_back(row.result);
    }
    for (const auto& [policy, all] : results) {
      const auto median = [&, &all = all](auto of) {
        std::vector<double> values;
        for (const sim::RunResult& one : all) values.push_back(of(one));
        return report::Median(std::move(values));
      };
      curves.points.push_back(
          {names[policy], run.axis.kind == sim::AxisKind::kWork ? value * kGflopAtWork1 : value,
           median([](const auto& r) { return r.p50_ms; }), median([](const auto& r) { return r.mean_ms; }),
           median([](const auto& r) { return r.p99_ms; }), median([](const auto& r) { return r.loss; }),
           median([](const auto& r) { return r.share.size() > 1 ? r.share[1] : 0; })});
    }
  }
  return curves;
}

void ReadUnits(const sim::Scenario& scenario, PaperFigure& figure) {
  const auto& units = scenario.apps.front().groups.front().units;
  for (size_t i = 0; i < 2 && i < units.size(); i++)
    figure.unit_gflops[i] = kGflopAtWork1 * units[i].sustained_rps();
  figure.nic_share = figure.unit_gflops[1] / figure.unit_gflops[0];
}

void AddLabDocument(const std::string& experiment, const nlohmann::json& document, bool emulated,
                    PaperFigures& figures) {
  for (const nlohmann::json& row : document.at("rows")) {
    const std::string app = row.value("app", "");
    const std::string figure = FigureOf(experiment, app);
    const bool to_scale = emulated && figure != "6";
    PaperFigure& into = figures[figure];
    if (into.readings.empty()) into.readings.push_back({});
    into.latencies_comparable = to_scale;
    const double scale = to_scale ? TimeScale(figure) : 1;
    into.readings[0].points.push_back({PolicyName(row.value("policy", "")), LabX(figure, row),
                                       Number(row, "p50_ms") * scale, kUnknown, Number(row, "p99_ms") * scale,
                                       1 - Number(row, "answered_pct") / 100, kUnknown});
    const auto& ratios = document.at("ratios");
    const std::string before = app.empty() ? "" : app + "_";
    into.nic_share = Number(ratios, (before + "s1-nic_capacity_rps").c_str()) /
                     Number(ratios, (before + "s1-cpu_capacity_rps").c_str());
  }
}

}  // namespace spillway::lab

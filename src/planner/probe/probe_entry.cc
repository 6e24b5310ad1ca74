// SPDX-License-Identifier: Apache-2.0
#include "planner/probe/probe_entry.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

namespace spillway::planner {
namespace {

// Lovelock, section 5.1: E2000's cores lose 8 to 26 % to each other on TPC-H. The middle.
constexpr double kReferenceKept = 1 - (0.08 + 0.26) / 2;
constexpr const char* kMeasured = "measured by spillway plan probe";

const ProbePoint* Find(const std::vector<ProbePoint>& points, const std::string& kernel, bool all) {
  const ProbePoint* found = nullptr;
  for (const ProbePoint& point : points)
    if (point.kernel == kernel && (found == nullptr || all)) found = &point;
  return found;
}

// What a core keeps of its speed when all are busy, over the kernels that are like TPC-H: geometric mean.
double Kept(const Node& node) {
  double product = 1;
  int kernels = 0;
  for (const char* kernel : {"hash-join", "q1", "q6"}) {
    const auto found = node.contention.find(kernel);
    if (found == node.contention.end()) continue;
    product *= found->second.loaded / found->second.alone;
    kernels++;
  }
  return kernels == 0 ? 1 : std::pow(product, 1.0 / kernels);
}

}  // namespace

Node EntryOf(const std::vector<ProbePoint>& points, const ProbedMachine& machine, const Catalogue& shipped) {
  const Node &reference = *shipped.FindNode("ipu-e2000"), &server = *shipped.FindNode("n2d-milan");
  const Node& like = machine.platform == Platform::kServer ? server : reference;
  Node node;
  node.name = machine.name;
  node.platform = machine.platform;
  node.cores = machine.cores;
  node.memory_gb = machine.memory_gb;
  node.device_slots = machine.device_slots;
  node.sources["rest"] = kMeasured;
  const auto given = [&](const char* key, std::optional<double> value, double assumed) {
    node.sources[key] = value ? "given to spillway plan probe" : fmt::format("assumed, as of {}", like.name);
    return value.value_or(assumed);
  };
  node.price_usd = given("price_usd", machine.price_usd, like.price_usd);
  node.power_w = given("power_w", machine.power_w, like.power_w);
  node.network_gbps = given("network_gbps", machine.network_gbps, like.network_gbps);
  node.sources["device_slots"] = "given to spillway plan probe";
  for (const KernelKind& kind : KernelKinds()) {
    const ProbePoint *alone = Find(points, kind.name, false), *loaded = Find(points, kind.name, true);
    if (alone == nullptr) continue;
    node.contention[kind.name] = {kind.unit, alone->per_core, loaded->per_core};
    node.throughput[kind.name] = loaded->per_core * machine.cores;
  }
  // The bus as the one channel that would bring what the triad gets with all cores busy.
  const auto triad = node.throughput.find("triad");
  node.dram = {1, triad == node.throughput.end() ? 1 : triad->second * 1000 / 8};
  node.sources["dram"] = "measured: stream triad with all cores busy, as one channel";
  const double core_speed = machine.core_speed.value_or(1);
  node.throughput["ipu-e2000"] =
      static_cast<double>(machine.cores) / reference.cores * core_speed * Kept(node) / kReferenceKept;
  node.sources["throughput"] =
      fmt::format("{}; ipu-e2000 from measured contention, a core by itself {} {:g} times E2000's", kMeasured,
                  machine.core_speed ? "given as" : "assumed to do", core_speed);
  return node;
}

nlohmann::ordered_json NodeJson(const Node& node) {
  nlohmann::ordered_json json = {{"name", node.name}, {"platform", ToString(node.platform)}};
  json["kinds"] = nlohmann::ordered_json::array();
  for (NodeKind kind : kNodeKinds)
    if (node.Serves(kind)) json["kinds"].push_back(ToString(kind));
  json["cores"] = node.cores;
  json["network_gbps"] = node.network_gbps;
  json["dram"] = {{"channels", node.dram.channels}, {"mega_transfers_per_s", node.dram.mega_transfers_per_s}};
  json["memory_gb"] = node.memory_gb;
  json["device_slots"] = node.device_slots;
  json["price_usd"] = node.price_usd;
  json["power_w"] = node.power_w;
  for (const auto& [yardstick, rate] : node.throughput) json["throughput"][yardstick] = rate;
  for (const auto& [kernel, rate] : node.contention)
    json["contention"][kernel] = {{"unit", rate.unit}, {"alone", rate.alone}, {"loaded", rate.loaded}};
  for (const auto& [figure, source] : node.sources) json["sources"][figure] = source;
  return json;
}

nlohmann::ordered_json ProbeJson(const std::vector<ProbePoint>& points, const Node& entry, int rounds) {
  report::Document document("plan.probe");
  document.SetRounds(rounds);
  for (const KernelKind& kind : KernelKinds()) {
    const ProbePoint* alone = Find(points, kind.name, false);
    for (const ProbePoint& point : points) {
      if (point.kernel != kind.name) continue;
      document.AddRow({{"kernel", kind.name},
                       {"unit", kind.unit},
                       {"bound_by", kind.bound_by},
                       {"busy", point.busy},
                       {"per_core", point.per_core},
                       {"low", point.low},
                       {"high", point.high},
                       {"of_alone", point.per_core / alone->per_core}});
    }
  }
  for (const auto& [kernel, rate] : entry.contention) document.SetRatio("drop_" + kernel, rate.Drop());
  nlohmann::ordered_json json = document.Json();
  json["catalogue"]["nodes"] = nlohmann::ordered_json::array({NodeJson(entry)});
  return json;
}

report::Table ProbeTable(const std::vector<ProbePoint>& points) {
  report::Table table({{"kernel", "kernel"},
                       {"bound_by", "bound by"},
                       {"busy", "busy cores"},
                       {"per_core", "per core"},
                       {"unit", "unit"},
                       {"of_alone", "of alone", 2}});
  for (const KernelKind& kind : KernelKinds()) {
    const ProbePoint* alone = Find(points, kind.name, false);
    for (const ProbePoint& point : points)
      if (point.kernel == kind.name)
        table.AddRow({kind.name, kind.bound_by, static_cast<std::int64_t>(point.busy), point.per_core,
                      kind.unit, point.per_core / alone->per_core});
  }
  return table;
}

}  // namespace spillway::planner

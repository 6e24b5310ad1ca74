// SPDX-License-Identifier: Apache-2.0
#include "gateway/control/fleet_report.h"

#include <nlohmann/json.hpp>

namespace spillway::gateway {
namespace {

using nlohmann::json;
using namespace scheduler;

double Share(int milli) { return static_cast<double>(milli) / kWholeGpu; }

json ReportOf(const Fleet& fleet, const Instance& one, const TookMs& took) {
  json report{{"id", one.id},
              {"phase", ToString(one.phase)},
              {"gpu", GpuKey(one.place.host, one.place.gpu)},
              {"share", Share(one.place.milli)},
              {"since_ms", fleet.now - one.since}};
  if (const std::string gpu_model = GpuModelAt(fleet, one.place); !gpu_model.empty())
    report["gpu_model"] = gpu_model;
  if (const auto ms = took.find(one.id); ms != took.end()) report["service_ms"] = ms->second;
  if (one.place.profile) report["profile"] = ShapeOf(*one.place.profile).name;
  if (one.replaces != 0) report["replaces"] = one.replaces;
  if (one.is_unseen) report["phase"] = "awaited";
  if (IsStranded(fleet, one)) report["stranded"] = true;
  return report;
}

json ReportOf(const Fleet& fleet, const std::string& name, const GpuHost& host) {
  json gpus = json::array();
  for (const Gpu& gpu : host.gpus) {
    const std::string key = GpuKey(name, gpu.id);
    int used = 0;
    json profiles = json::array();
    for (const auto& [id, one] : fleet.instances) {
      if (GpuKey(one.place.host, one.place.gpu) != key) continue;
      used += one.place.milli;
      if (one.place.profile) profiles.push_back(ShapeOf(*one.place.profile).name);
    }
    json entry{
        {"id", gpu.id}, {"model", gpu.model}, {"memory_mib", gpu.memory_mib}, {"share_used", Share(used)}};
    if (!profiles.empty()) entry["profiles"] = profiles;
    const auto trouble = fleet.gpu_troubles.find(key);
    if (trouble != fleet.gpu_troubles.end()) entry["trouble"] = trouble->second.why;
    if (!gpu.lost.empty()) entry["lost"] = gpu.lost;
    gpus.push_back(entry);
  }
  json report{{"name", name}, {"up", host.is_up && !host.HasEnded()}, {"gpus", gpus}};
  if (!host.programs.empty()) report["programs"] = host.programs;
  return report;
}

}  // namespace

json ReportOf(const Fleet& fleet, const ServedModel& model, const TookMs& took) {
  json instances = json::array();
  int ready = 0;
  bool is_moving = false;
  for (const auto& [id, one] : fleet.instances) {
    if (one.model.name != model.name) continue;
    instances.push_back(ReportOf(fleet, one, took));
    ready += IsServing(one);
    is_moving = is_moving || one.replaces != 0;
  }
  for (const PlannedMove& move : fleet.planned) {
    const auto mover = fleet.instances.find(move.instance);
    is_moving = is_moving || (mover != fleet.instances.end() && mover->second.model.name == model.name);
  }
  json report{{"name", model.name},     {"tenant", model.tenant},      {"replicas", model.replicas},
              {"ready", ready},         {"share", Share(model.milli)}, {"memory_mib", model.memory_mib},
              {"slo_ms", model.slo_ms}, {"moving", is_moving},         {"instances", instances}};
  if (!model.host_program.empty()) report["program"] = model.host_program;
  const auto downtime = fleet.downtime_ms.find(model.name);
  if (downtime != fleet.downtime_ms.end()) report["downtime_ms"] = downtime->second;
  const auto trouble = fleet.model_troubles.find(model.name);
  if (trouble != fleet.model_troubles.end()) report["trouble"] = trouble->second.why;
  return report;
}

json ReportOf(const Controller& controller, const TookMs& took) {
  const Fleet& fleet = controller.fleet();
  json models = json::array(), hosts = json::array();
  for (const auto& [name, model] : fleet.models) {
    models.push_back(ReportOf(fleet, model, took));
    if (const auto slowness = scheduler::LearnedSpeeds::Of(fleet.service_times, name, fleet.now);
        !slowness.empty())
      models.back()["slowness"] = slowness;
  }
  // Of models that were removed: until they have ended.
  for (const auto& [id, one] : fleet.instances) {
    const bool is_told = std::any_of(models.begin(), models.end(),
                                     [&](const json& entry) { return entry.at("name") == one.model.name; });
    if (is_told) continue;
    ServedModel removed = one.model;
    removed.replicas = 0;
    models.push_back(ReportOf(fleet, removed, took));
    models.back()["removing"] = true;
  }
  for (const auto& [name, host] : fleet.hosts) hosts.push_back(ReportOf(fleet, name, host));
  return {
      {"models", models},
      {"hosts", hosts},
      {"gpus_on", controller.GpusOn()},
      {"gpu_hours", static_cast<double>(fleet.gpu_ms) / 3.6e6},
      {"moves", {{"done", fleet.moves_done}, {"failed", fleet.moves_failed}, {"left", fleet.moves_left}}}};
}

}  // namespace spillway::gateway

// SPDX-License-Identifier: Apache-2.0
#include "scheduler/controller/fleet.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "scheduler/controller/fleet_json.h"

namespace spillway::scheduler {
namespace {

using nlohmann::json;

// The second has programs of hosts, which gateways of before would forget.
constexpr int kVersion = 1, kVersionWithPrograms = 2;
constexpr Phase kPhases[] = {Phase::kStarting, Phase::kReady, Phase::kDraining, Phase::kStopping};

json Of(const Instance& one) {
  return {{"id", one.id},
          {"model", ToJson(one.model)},
          {"place", ToJson(one.place)},
          {"phase", ToString(one.phase)},
          {"since", one.since},
          {"replaces", one.replaces},
          {"dropped", one.dropped},
          {"is_unseen", one.is_unseen}};
}

Instance InstanceOf(const json& text) {
  Instance one;
  one.id = text.at("id");
  one.model = ModelOf(text.at("model"));
  one.place = PlaceOf(text.at("place"));
  const std::string word = text.at("phase");
  bool known = false;
  for (const Phase phase : kPhases)
    if (word == ToString(phase)) one.phase = phase, known = true;
  if (!known) throw std::invalid_argument("phase: expected starting, ready, draining or stopping");
  one.since = text.at("since");
  one.replaces = text.at("replaces");
  one.dropped = text.at("dropped");
  one.is_unseen = text.at("is_unseen");
  return one;
}

json Of(const std::map<std::string, Trouble>& troubles) {
  json text = json::object();
  for (const auto& [name, trouble] : troubles)
    text[name] = {{"failures", trouble.failures},
                  {"not_before", trouble.not_before},
                  {"why", trouble.why},
                  {"where", trouble.where}};
  return text;
}

std::map<std::string, Trouble> TroublesOf(const json& text) {
  std::map<std::string, Trouble> troubles;
  for (const auto& [name, entry] : text.items())
    troubles[name] = {entry.at("failures"), entry.at("not_before"), entry.at("why"), entry.at("where")};
  return troubles;
}

json Of(const GpuHost& host) {
  json gpus = json::array();
  for (const Gpu& gpu : host.gpus) gpus.push_back(ToJson(gpu));
  json text{{"gpus", gpus}, {"is_up", host.is_up}, {"since", host.since}};
  if (!host.programs.empty()) text["programs"] = host.programs;
  if (!host.agent.empty()) text["agent"] = host.agent;
  return text;
}

json Of(const ServiceTimes& times) {
  json text = json::object();
  for (const auto& [model, by_gpu] : times)
    for (const auto& [gpu, time] : by_gpu) text[model][gpu] = {{"ms", time.ms}, {"at", time.at}};
  return text;
}

ServiceTimes ServiceTimesOf(const json& text) {
  ServiceTimes times;
  for (const auto& [model, by_gpu] : text.items())
    for (const auto& [gpu, time] : by_gpu.items()) {
      const ServiceTime read{time.at("ms"), time.at("at")};
      if (!(read.ms > 0)) throw std::invalid_argument("service_times: ms: expected more than 0");
      times[model][gpu] = read;
    }
  return times;
}

GpuHost HostOf(const json& text) {
  GpuHost host;
  for (const json& gpu : text.at("gpus")) host.gpus.push_back(GpuOf(gpu));
  host.is_up = text.at("is_up");
  host.since = text.at("since");
  if (text.contains("programs")) host.programs = text["programs"].get<std::set<std::string>>();
  host.agent = text.value("agent", "");
  return host;
}

Fleet FleetOf(const json& text) {
  Fleet fleet;
  if (text.at("spillway_fleet") != kVersion && text.at("spillway_fleet") != kVersionWithPrograms)
    throw std::invalid_argument(
        fmt::format("spillway_fleet: expected {} or {}", kVersion, kVersionWithPrograms));
  fleet.revision = text.at("revision");
  fleet.last_id = text.at("last_id");
  for (const json& entry : text.at("models")) {
    ServedModel model = ModelOf(entry);
    fleet.models.emplace(model.name, model);
  }
  for (const auto& [name, entry] : text.at("hosts").items()) fleet.hosts[name] = HostOf(entry);
  for (const json& entry : text.at("instances")) {
    const Instance one = InstanceOf(entry);
    fleet.instances[one.id] = one;
  }
  for (const json& entry : text.at("planned"))
    fleet.planned.push_back({entry.at("instance"), PlaceOf(entry.at("to"))});
  fleet.model_troubles = TroublesOf(text.at("model_troubles"));
  fleet.gpu_troubles = TroublesOf(text.at("gpu_troubles"));
  fleet.downtime_ms = text.at("downtime_ms").get<std::map<std::string, Millis>>();
  if (text.contains("service_times")) fleet.service_times = ServiceTimesOf(text["service_times"]);  // newer
  fleet.moves_left = text.at("moves_left");
  fleet.moves_done = text.at("moves_done");
  fleet.moves_failed = text.at("moves_failed");
  fleet.gpu_ms = text.at("gpu_ms");
  fleet.now = text.at("now");
  fleet.changed = text.at("changed");
  fleet.considered = text.at("considered");
  return fleet;
}

const Gpu* GpuAt(const Fleet& fleet, const SlicePlace& place) {
  const auto host = fleet.hosts.find(place.host);
  if (host == fleet.hosts.end()) return nullptr;
  for (const Gpu& gpu : host->second.gpus)
    if (gpu.id == place.gpu) return &gpu;
  return nullptr;
}

}  // namespace

bool IsSameService(ServedModel a, const ServedModel& b) {
  a.replicas = b.replicas;
  a.slo_ms = b.slo_ms;
  return a == b;
}

std::string ServiceDifference(const ServedModel& a, const ServedModel& b) {
  const std::pair<const char*, bool> keys[] = {{"tenant", a.tenant != b.tenant},
                                               {"share", a.milli != b.milli},
                                               {"memory", a.memory_mib != b.memory_mib},
                                               {"program", a.host_program != b.host_program},
                                               {"model, cell or cells", a.program != b.program}};
  std::string text;
  for (const auto& [key, differs] : keys)
    if (differs) text += fmt::format("{}{}", text.empty() ? "" : ", ", key);
  return text;
}

bool Lists(const GpuHost& host, const std::string& program) {
  return program.empty() || host.programs.count(program) != 0;
}

std::string WhyLost(const Fleet& fleet, const SlicePlace& place) {
  const Gpu* gpu = GpuAt(fleet, place);
  if (gpu == nullptr) return fmt::format("host {} has GPU {} no longer", place.host, place.gpu);
  return gpu->lost.empty() ? "" : fmt::format("GPU {} of {}: {}", place.gpu, place.host, gpu->lost);
}

bool IsStranded(const Fleet& fleet, const Instance& one) {
  const auto host = fleet.hosts.find(one.place.host);
  if (one.phase != Phase::kStopping) return false;
  if (host == fleet.hosts.end() || !host->second.is_up) return true;
  const Gpu* gpu = GpuAt(fleet, one.place);  // one that is not listed any more may be given up in good order
  return gpu != nullptr && !gpu->lost.empty();
}

std::string GpuModelAt(const Fleet& fleet, const SlicePlace& place) {
  const Gpu* gpu = GpuAt(fleet, place);
  return gpu == nullptr ? "" : gpu->model;
}

const char* ToString(Phase phase) {
  switch (phase) {
    case Phase::kStarting:
      return "starting";
    case Phase::kReady:
      return "ready";
    case Phase::kDraining:
      return "draining";
    case Phase::kStopping:
      break;
  }
  return "stopping";
}

std::string ToText(const Fleet& fleet) {
  json models = json::array(), hosts = json::object(), instances = json::array(), planned = json::array();
  for (const auto& [name, model] : fleet.models) models.push_back(ToJson(model));
  for (const auto& [name, host] : fleet.hosts) hosts[name] = Of(host);
  for (const auto& [id, one] : fleet.instances) instances.push_back(Of(one));
  for (const PlannedMove& move : fleet.planned)
    planned.push_back({{"instance", move.instance}, {"to", ToJson(move.to)}});
  const auto is_program = [](const auto& entry) { return !entry.second.host_program.empty(); };
  const bool has_programs = std::any_of(fleet.models.begin(), fleet.models.end(), is_program);
  const json text{{"spillway_fleet", has_programs ? kVersionWithPrograms : kVersion},
                  {"revision", fleet.revision},
                  {"last_id", fleet.last_id},
                  {"models", models},
                  {"hosts", hosts},
                  {"instances", instances},
                  {"planned", planned},
                  {"model_troubles", Of(fleet.model_troubles)},
                  {"gpu_troubles", Of(fleet.gpu_troubles)},
                  {"downtime_ms", fleet.downtime_ms},
                  {"service_times", Of(fleet.service_times)},
                  {"moves_left", fleet.moves_left},
                  {"moves_done", fleet.moves_done},
                  {"moves_failed", fleet.moves_failed},
                  {"gpu_ms", fleet.gpu_ms},
                  {"now", fleet.now},
                  {"changed", fleet.changed},
                  {"considered", fleet.considered}};
  return text.dump(1) + "\n";
}

Result<Fleet> ParseFleet(std::string_view text) {
  const json read = json::parse(text, nullptr, false);
  if (!read.is_object()) return Fail(ErrorCode::kBadInput, "expected a JSON object");
  try {
    return FleetOf(read);
  } catch (const json::exception& error) {
    const std::string_view what = error.what();  // "[json.exception.out_of_range.403] key 'now' not found"
    const size_t id_ends = what.find("] ");
    return Fail(ErrorCode::kBadInput, std::string(id_ends == what.npos ? what : what.substr(id_ends + 2)));
  } catch (const std::exception& error) {
    return Fail(ErrorCode::kBadInput, error.what());
  }
}

}  // namespace spillway::scheduler

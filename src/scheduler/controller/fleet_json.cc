// SPDX-License-Identifier: Apache-2.0
#include "scheduler/controller/fleet_json.h"

#include <nlohmann/json.hpp>
#include <stdexcept>

namespace spillway::scheduler {

using nlohmann::json;

json ToJson(const ServedModel& model) {
  json text{{"name", model.name},      {"tenant", model.tenant},         {"replicas", model.replicas},
            {"milli", model.milli},    {"memory_mib", model.memory_mib}, {"slo_ms", model.slo_ms},
            {"program", model.program}};
  if (!model.host_program.empty()) text["host_program"] = model.host_program;
  return text;
}

ServedModel ModelOf(const json& text) {
  ServedModel model;
  model.name = text.at("name");
  model.tenant = text.at("tenant");
  model.replicas = text.at("replicas");
  model.milli = text.at("milli");
  model.memory_mib = text.at("memory_mib");
  model.slo_ms = text.at("slo_ms");
  model.program = text.at("program");
  model.host_program = text.value("host_program", "");
  return model;
}

json ToJson(const SlicePlace& place) {
  json text{{"host", place.host}, {"gpu", place.gpu}, {"milli", place.milli}, {"start", place.start}};
  if (place.profile) text["profile"] = ShapeOf(*place.profile).name;
  return text;
}

SlicePlace PlaceOf(const json& text) {
  SlicePlace place{text.at("host"), text.at("gpu"), text.at("milli"), std::nullopt, text.at("start")};
  if (text.contains("profile")) {
    place.profile = ProfileByName(text["profile"].get<std::string>());
    if (!place.profile) throw std::invalid_argument("profile: expected a MIG profile's name");
  }
  return place;
}

json ToJson(const Gpu& gpu) {
  json text{
      {"id", gpu.id}, {"model", gpu.model}, {"memory_mib", gpu.memory_mib}, {"can_divide", gpu.can_divide}};
  if (!gpu.lost.empty()) text["lost"] = gpu.lost;
  return text;
}

Gpu GpuOf(const json& text) {
  return {text.at("id"), text.at("model"), text.at("memory_mib"), text.at("can_divide"),
          text.value("lost", "")};
}

}  // namespace spillway::scheduler

// SPDX-License-Identifier: Apache-2.0
#include "json.h"

namespace spillway::api {

using nlohmann::json;

json ToJson(const switching::InterfaceView& interface) {
  return {{"name", interface.name},
          {"ifindex", interface.ifindex},
          {"mode", interface.native ? "native" : "generic"},
          {"why_generic", interface.why_generic}};
}

namespace {

// null: the unit's agent does not say that it fails.
json Failing(const switching::UnitHealth& health) {
  if (!health.failing) return nullptr;
  return {{"reason", health.refused ? "refused" : "unanswered"},
          {"taken_out", health.taken_out},
          {"since_ms", health.taken_out ? json(health.out_ms) : json(nullptr)}};
}

}  // namespace

json ToJson(const switching::UnitView& unit) {
  json out = {{"pool", unit.pool},
              {"server", unit.server},
              {"unit", unit.unit},
              {"id", unit.id},
              {"kind", model::ToString(unit.kind)},
              {"address", unit.address.ToString()},
              {"capacity", unit.capacity},
              {"status", model::ToString(unit.status)},
              {"resolved", unit.resolved},
              {"silent", unit.silent},
              {"busy", unit.busy},
              {"failing", Failing(unit.health)},
              {"level", unit.level},
              {"queue", unit.queue},
              {"assigned", unit.assigned},
              {"latency_us", unit.latency_us},
              {"base_us", unit.base_us},
              {"knee_us", unit.knee_us},
              {"tail_us", unit.tail_us},
              {"slot_us", unit.slot_ns / 1e3},
              {"report_age_ms", nullptr},
              {"packets", unit.packets},
              {"bytes", unit.bytes},
              {"new_flows", unit.new_flows},
              {"ring_share", unit.ring_share}};
  if (unit.report_age_ms) out["report_age_ms"] = *unit.report_age_ms;
  return out;
}

json ToJson(const switching::ServiceView& view) {
  const model::Service& service = view.service;
  json ports = json::array();
  for (const model::ServicePort& port : service.ports)
    ports.push_back(model::ToString(port.protocol) + "/" + std::to_string(port.port));
  return {{"name", service.name},
          {"vip", service.vip.ToString()},
          {"ports", std::move(ports)},
          {"pool", service.pool},
          {"mode", model::ToString(service.mode)},
          {"affinity", model::ToString(service.affinity)},
          {"server_policy", model::ToString(service.server_policy)},
          {"unit_policy", model::ToString(service.unit_policy)},
          {"idle_s", service.idle_s},
          {"ring_slots", view.ring_slots},
          {"slots_moved", view.slots_moved},
          {"packets", view.packets},
          {"bytes", view.bytes},
          {"new_flows", view.new_flows}};
}

json ToJson(const switching::FlowTableView& table) {
  return {{"capacity", table.capacity}, {"used", table.used}, {"sweep_age_s", table.sweep_age_s}};
}

json ToJson(const switching::ApplyReport& report) {
  return {{"changes", report.changes},
          {"notes", report.notes},
          {"slots_moved", report.slots_moved},
          {"slots_total", report.slots_total}};
}

json ToJson(const spw_counters& counters) {
  json out = json::object();
#define SPW_PUT(field, help) out[#field] = static_cast<uint64_t>(counters.field);
  SPW_COUNTERS(SPW_PUT)
#undef SPW_PUT
  return out;
}

std::string Dump(const json& value) { return value.dump(-1, ' ', false, json::error_handler_t::replace); }

}  // namespace spillway::api

// SPDX-License-Identifier: Apache-2.0
#include "json.h"

#include <map>
#include <nlohmann/json.hpp>
#include <tuple>

#include "model/yaml.h"

namespace spillway::api {

using nlohmann::json;

json ToJson(const switching::InterfaceView& interface) {
  return {{"name", interface.name},
          {"ifindex", interface.ifindex},
          {"mode", interface.ifindex == 0 ? "none"
                   : interface.native     ? "native"
                                          : "generic"},
          {"why_generic", interface.why_generic}};
}

const char* Word(switching::FailingReason reason) {
  switch (reason) {
    case switching::FailingReason::kErrors:
      return "errors";
    case switching::FailingReason::kRefused:
      return "refused";
    default:
      return "unanswered";
  }
}

namespace {

const char* WordOfKept(switching::KeptFor kept) {
  switch (kept) {
    case switching::KeptFor::kChecks:
      return "checks";
    case switching::KeptFor::kCommon:
      return "common";
    case switching::KeptFor::kNoNewFlows:
      return "no_new_flows";
    default:
      return "half";
  }
}

// null: the unit's agent does not say that it fails.
json Failing(const switching::UnitHealth& health) {
  if (!health.failing) return nullptr;
  return {{"reason", Word(health.reason)},
          {"taken_out", health.taken_out},
          {"excused", health.excused()},
          {"kept", health.kept ? json(WordOfKept(*health.kept)) : json(nullptr)},
          {"failing_ms", health.failing_ms},
          {"since_ms", health.taken_out ? json(health.out_ms) : json(nullptr)}};
}

}  // namespace

json ToJson(const switching::UnitView& unit) {
  json out = {{"pool", unit.pool},
              {"server", unit.server},
              {"unit", unit.unit},
              {"id", unit.id},
              {"server_code", spw_unit_server(unit.id)},
              {"index", spw_unit_index(unit.id)},
              {"kind", model::ToString(unit.kind)},
              {"address", unit.address.ToString()},
              {"capacity", unit.capacity},
              {"status", model::ToString(unit.status)},
              {"ejected", unit.ejected},
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
          {"health", service.health ? json(model::ToYaml(*service.health)) : json(nullptr)},
          {"failing_checks", view.failing},
          {"ejected_units", view.ejected},
          {"fail_open", view.fail_open},
          {"packets", view.packets},
          {"bytes", view.bytes},
          {"new_flows", view.new_flows}};
}

json ToJson(const health::CheckView& check) {
  json out = {{"service", check.service}, {"pool", check.pool},     {"server", check.server},
              {"unit", check.unit},       {"check", check.what},    {"state", ToString(check.state)},
              {"state_s", check.state_s}, {"held_s", check.held_s}, {"reason", check.reason},
              {"passed", check.passed},   {"failed", check.failed}, {"skipped", check.skipped},
              {"changes", check.changes}, {"last_ms", nullptr},     {"skip_reason", check.skip_reason}};
  if (check.last_ms) out["last_ms"] = *check.last_ms;
  return out;
}

json UnitsWithHealth(const std::vector<switching::UnitView>& units,
                     const std::vector<health::CheckView>& checks) {
  // Failing before unknown before up; of equals the one that has been so for longer.
  const auto worse = [](const health::CheckView& a, const health::CheckView& b) {
    const auto rank = [](health::CheckState state) {
      return state == health::CheckState::kFailing ? 2 : state == health::CheckState::kUnknown ? 1 : 0;
    };
    return rank(a.state) != rank(b.state) ? rank(a.state) > rank(b.state) : a.state_s > b.state_s;
  };
  std::map<std::tuple<std::string, std::string, std::string>, const health::CheckView*> worst;
  for (const health::CheckView& check : checks) {
    const health::CheckView*& known = worst[{check.pool, check.server, check.unit}];
    if (known == nullptr || worse(check, *known)) known = &check;
  }
  json out = json::array();
  for (const switching::UnitView& unit : units) {
    json shown = ToJson(unit);
    const auto found = worst.find({unit.pool, unit.server, unit.unit});
    shown["health"] = nullptr;
    if (found != worst.end()) {
      const health::CheckView& check = *found->second;
      shown["health"] = {{"state", ToString(check.state)},
                         {"state_s", check.state_s},
                         {"service", check.service},
                         {"check", check.what},
                         // Of a unit that is up, what was wrong with it once is in /v1/health.
                         {"reason", check.state == health::CheckState::kFailing ? check.reason : ""}};
    }
    out.push_back(std::move(shown));
  }
  return out;
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

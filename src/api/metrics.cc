// SPDX-License-Identifier: Apache-2.0
#include "metrics.h"

#include <prometheus/text_serializer.h>

#include <functional>
#include <utility>

#include "base/print.h"
#include "json.h"

namespace spillway::api {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;
using Labels = std::vector<ClientMetric::Label>;

void AddSample(MetricFamily& family, Labels labels, double value) {
  ClientMetric metric;
  metric.label = std::move(labels);
  (family.type == MetricType::Counter ? metric.counter.value : metric.gauge.value) = value;
  family.metric.push_back(std::move(metric));
}

MetricFamily Family(std::string name, std::string help, MetricType type) {
  MetricFamily family;
  family.name = std::move(name);
  family.help = std::move(help);
  family.type = type;
  return family;
}

MetricFamily Single(std::string name, std::string help, MetricType type, double value, Labels labels = {}) {
  MetricFamily family = Family(std::move(name), std::move(help), type);
  AddSample(family, std::move(labels), value);
  return family;
}

// One sample per view; nullopt: none for this one.
template <class View>
MetricFamily PerView(const std::vector<View>& views, const char* name, const char* help, MetricType type,
                     const std::function<Labels(const View&)>& labels,
                     const std::function<std::optional<double>(const View&)>& value) {
  MetricFamily family = Family(name, help, type);
  for (const View& view : views)
    if (const auto sample = value(view)) AddSample(family, labels(view), *sample);
  return family;
}

void AddSwitch(std::vector<MetricFamily>& out, const Snapshot& s) {
  out.push_back(Single("spillway_build_info", "always 1; the version is a label", MetricType::Gauge, 1,
                       {{"version", s.version}, {"instance_name", s.instance}}));
  out.push_back(Single("spillway_start_time_seconds", "Unix time at which spillwayd started",
                       MetricType::Gauge, s.start_time_s));
  out.push_back(Single("spillway_adopted", "1: the data plane of an earlier spillwayd was taken over",
                       MetricType::Gauge, s.adopted));
  out.push_back(Single("spillway_config_applied_time_seconds",
                       "Unix time at which the running configuration was applied", MetricType::Gauge,
                       s.apply_time_s));
  out.push_back(Single("spillway_config_last_apply_successful",
                       "0: the last configuration offered was refused, the one before it runs",
                       MetricType::Gauge, s.last_apply_ok));
#define SPW_PUT(field, help) \
  out.push_back(Single("spillway_" #field "_total", help, MetricType::Counter, double(s.counters.field)));
  SPW_COUNTERS(SPW_PUT)
#undef SPW_PUT
  out.push_back(Single("spillway_flow_table_capacity_entries", "entries the flow table can hold",
                       MetricType::Gauge, double(s.flow_table.capacity)));
  out.push_back(Single("spillway_flow_table_used_entries", "entries in use at the last full sweep",
                       MetricType::Gauge, double(s.flow_table.used)));
  out.push_back(Single("spillway_flow_table_sweep_age_seconds", "time since that sweep", MetricType::Gauge,
                       s.flow_table.sweep_age_s));
  MetricFamily native = Family("spillway_interface_native",
                               "1: XDP runs in the driver; 0: in generic mode, slower", MetricType::Gauge);
  for (const auto& interface : s.interfaces)
    AddSample(native, {{"interface", interface.name}}, interface.native);
  out.push_back(std::move(native));
}

void AddUnits(std::vector<MetricFamily>& out, const Snapshot& s) {
  using View = switching::UnitView;
  const auto labels = [](const View& u) {
    return Labels{
        {"pool", u.pool}, {"server", u.server}, {"unit", u.unit}, {"kind", model::ToString(u.kind)}};
  };
  const auto add = [&](const char* name, const char* help, MetricType type,
                       const std::function<std::optional<double>(const View&)>& value) {
    out.push_back(PerView<View>(s.units, name, help, type, labels, value));
  };
  constexpr auto kGauge = MetricType::Gauge;
  constexpr auto kCounter = MetricType::Counter;
  add("spillway_unit_up", "1: the unit gets new flows", kGauge,
      [](const View& u) { return u.status == SPW_UNIT_UP && !u.ejected; });
  add("spillway_unit_ejected", "1: its health checks fail, and it gets no new flows", kGauge,
      [](const View& u) { return u.ejected; });
  MetricFamily status = Family("spillway_unit_status", "1 for the unit's status, 0 for the others", kGauge);
  for (const View& unit : s.units)
    for (const spw_unit_status one : {SPW_UNIT_UP, SPW_UNIT_DRAINING, SPW_UNIT_DOWN}) {
      Labels with_status = labels(unit);
      with_status.push_back({"status", model::ToString(one)});
      AddSample(status, std::move(with_status), unit.status == one);
    }
  out.push_back(std::move(status));
  add("spillway_unit_silent", "1: no fresh load report", kGauge, [](const View& u) { return u.silent; });
  add("spillway_unit_busy", "1: the agent's trigger is tripped", kGauge,
      [](const View& u) { return u.busy; });
  add("spillway_unit_failing", "1: the unit's agent says that requests get no answer, or errors", kGauge,
      [](const View& u) { return u.health.failing; });
  add("spillway_unit_taken_out",
      "1: the unit gets probes only, as it fails; at most half of a pool's units do", kGauge,
      [](const View& u) { return u.health.taken_out; });
  add("spillway_unit_excused",
      "1: the unit gets new flows though its agent says that it is dead, as it answers its checks", kGauge,
      [](const View& u) { return u.health.excused(); });
  MetricFamily failing =
      Family("spillway_unit_failing_seconds",
             "time since the unit began to fail, as its agent says; absent: it does not", kGauge);
  for (const View& unit : s.units) {
    if (!unit.health.failing) continue;
    Labels with_reason = labels(unit);
    with_reason.push_back({"reason", Word(unit.health.reason)});
    AddSample(failing, std::move(with_reason), unit.health.failing_ms / 1e3);
  }
  out.push_back(std::move(failing));
  add("spillway_unit_resolved", "1: the unit can be reached", kGauge,
      [](const View& u) { return u.resolved; });
  add("spillway_unit_capacity", "relative service rate, as configured", kGauge,
      [](const View& u) { return u.capacity; });
  add("spillway_unit_level_ratio", "load relative to the agent's threshold: 0 idle, 1 at it, at most 2",
      kGauge, [](const View& u) { return u.level / double(SPW_LEVEL_THRESHOLD); });
  add("spillway_unit_queue_requests", "requests in the unit at its last report", kGauge,
      [](const View& u) { return u.queue; });
  add("spillway_unit_assigned_flows", "flows placed on the unit since its last report", kGauge,
      [](const View& u) { return u.assigned; });
  add("spillway_unit_latency_seconds", "smoothed request latency at its last report", kGauge,
      [](const View& u) { return u.latency_us / 1e6; });
  add("spillway_unit_base_seconds",
      "latency of a request that does not wait, as its agent has learnt; absent: not yet", kGauge,
      [](const View& u) -> std::optional<double> {
        if (u.base_us == 0) return std::nullopt;
        return u.base_us / 1e6;
      });
  add("spillway_unit_slot_seconds",
      "work that a request brings: time per answer of the full unit, as its agent has learnt; absent: not "
      "yet",
      kGauge, [](const View& u) -> std::optional<double> {
        if (u.slot_ns == 0) return std::nullopt;
        return u.slot_ns / 1e9;
      });
  add("spillway_unit_report_age_seconds", "time since the last load report; absent: there was none", kGauge,
      [](const View& u) -> std::optional<double> {
        if (!u.report_age_ms) return std::nullopt;
        return *u.report_age_ms / 1e3;
      });
  add("spillway_unit_ring_share_ratio", "part of the pool's ring slots that name the unit", kGauge,
      [](const View& u) { return u.ring_share; });
  add("spillway_unit_packets_total", "packets sent to the unit", kCounter,
      [](const View& u) { return double(u.packets); });
  add("spillway_unit_bytes_total", "bytes sent to the unit", kCounter,
      [](const View& u) { return double(u.bytes); });
  add("spillway_unit_new_flows_total", "flows placed on the unit", kCounter,
      [](const View& u) { return double(u.new_flows); });
}

void AddChecks(std::vector<MetricFamily>& out, const Snapshot& s) {
  using View = health::CheckView;
  const auto labels = [](const View& v) {
    return Labels{{"service", v.service}, {"pool", v.pool}, {"server", v.server}, {"unit", v.unit}};
  };
  const auto add = [&](const char* name, const char* help, MetricType type,
                       const std::function<std::optional<double>(const View&)>& value) {
    out.push_back(PerView<View>(s.checks, name, help, type, labels, value));
  };
  constexpr auto kGauge = MetricType::Gauge;
  add("spillway_check_failing", "1: the check finds the unit failing; 0: up, or not known yet", kGauge,
      [](const View& v) { return v.state == health::CheckState::kFailing; });
  MetricFamily failures = Family("spillway_check_failing_info",
                                 "always 1, of a failing unit; why the last check failed is a label", kGauge);
  for (const View& view : s.checks) {
    if (view.state != health::CheckState::kFailing) continue;
    Labels with_reason = labels(view);
    with_reason.push_back({"reason", base::Printable(view.reason)});  // may quote what the unit sent
    AddSample(failures, std::move(with_reason), 1);
  }
  out.push_back(std::move(failures));
  add("spillway_check_state_seconds", "time since the check's result changed", kGauge,
      [](const View& v) { return v.state_s; });
  add("spillway_check_last_seconds", "how long the last check took; absent: there was none", kGauge,
      [](const View& v) -> std::optional<double> {
        if (!v.last_ms) return std::nullopt;
        return *v.last_ms / 1e3;
      });
  add("spillway_check_changes_total", "times that the check's result for the unit changed",
      MetricType::Counter, [](const View& v) { return double(v.changes); });
  MetricFamily checks = Family("spillway_checks_total", "health checks made, by result", MetricType::Counter);
  for (const View& view : s.checks)
    for (const auto& [result, count] :
         {std::pair{"passed", view.passed}, {"failed", view.failed}, {"skipped", view.skipped}}) {
      Labels with_result = labels(view);
      with_result.push_back({"result", result});
      AddSample(checks, std::move(with_result), double(count));
    }
  out.push_back(std::move(checks));
}

void AddServices(std::vector<MetricFamily>& out, const Snapshot& s) {
  using View = switching::ServiceView;
  const auto labels = [](const View& v) {
    return Labels{{"service", v.service.name}, {"pool", v.service.pool}};
  };
  const auto add = [&](const char* name, const char* help, MetricType type,
                       const std::function<std::optional<double>(const View&)>& value) {
    out.push_back(PerView<View>(s.services, name, help, type, labels, value));
  };
  MetricFamily info =
      Family("spillway_service_info", "always 1; VIP, mode and policies are labels", MetricType::Gauge);
  for (const View& view : s.services) {
    Labels all = labels(view);
    all.push_back({"vip", view.service.vip.ToString()});
    all.push_back({"mode", model::ToString(view.service.mode)});
    all.push_back({"server_policy", model::ToString(view.service.server_policy)});
    all.push_back({"unit_policy", model::ToString(view.service.unit_policy)});
    AddSample(info, std::move(all), 1);
  }
  out.push_back(std::move(info));
  add("spillway_service_packets_total", "packets forwarded for the service", MetricType::Counter,
      [](const View& v) { return double(v.packets); });
  add("spillway_service_bytes_total", "bytes forwarded for the service", MetricType::Counter,
      [](const View& v) { return double(v.bytes); });
  add("spillway_service_new_flows_total", "flows placed for the service", MetricType::Counter,
      [](const View& v) { return double(v.new_flows); });
  add("spillway_service_ring_slots", "slots of the service's ring", MetricType::Gauge,
      [](const View& v) { return v.ring_slots; });
  add("spillway_service_slots_moved", "slots not yet settled on their new owner", MetricType::Gauge,
      [](const View& v) { return v.slots_moved; });
  add("spillway_service_failing_checks", "units that fail their health checks", MetricType::Gauge,
      [](const View& v) { return v.failing; });
  add("spillway_service_ejected_units",
      "units that fail them and get no new flows: at most half of those that the service may use",
      MetricType::Gauge, [](const View& v) { return v.ejected; });
  add("spillway_service_fail_open", "1: every unit fails or cannot be reached, so none is ejected",
      MetricType::Gauge, [](const View& v) { return v.fail_open; });
  add("spillway_service_fail_opened_total", "times that fail-open began", MetricType::Counter,
      [](const View& v) { return double(v.fail_opened); });
}

}  // namespace

std::vector<MetricFamily> Families(const Snapshot& snapshot) {
  std::vector<MetricFamily> out;
  AddSwitch(out, snapshot);
  AddUnits(out, snapshot);
  AddServices(out, snapshot);
  AddChecks(out, snapshot);
  return out;
}

std::string MetricsText(const Snapshot& snapshot) {
  return prometheus::TextSerializer().Serialize(Families(snapshot));
}

}  // namespace spillway::api

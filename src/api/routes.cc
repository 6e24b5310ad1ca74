// SPDX-License-Identifier: Apache-2.0
#include "routes.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>
#include <tuple>

#include "api/changes.h"
#include "api/json.h"
#include "base/yaml/problems.h"

namespace spillway::api {
namespace {

using nlohmann::json;

constexpr const char* kMetricsType = "text/plain; version=0.0.4; charset=utf-8";
constexpr const char* kYamlType = "application/yaml";

Response Json(const json& body) { return {.body = Dump(body)}; }

Response NotFound(const std::string& message) { return ErrorResponse(404, "not_found", message); }

std::vector<std::string> Split(const std::string& path) {
  std::vector<std::string> parts;
  size_t start = 1;
  while (start <= path.size()) {
    const size_t end = std::min(path.find('/', start), path.size());
    parts.push_back(path.substr(start, end - start));
    start = end + 1;
  }
  return parts;
}

Response Status(const Control& control) {
  const Snapshot s = control.Read();
  json units = {{"up", 0},   {"draining", 0}, {"down", 0},           {"ejected", 0},   {"silent", 0},
                {"busy", 0}, {"failing", 0},  {"failing_checks", 0}, {"unresolved", 0}};
  const auto count = [&units](const char* key, bool when) {
    units[key] = units[key].get<int>() + (when ? 1 : 0);
  };
  for (const auto& unit : s.units) {
    count("up", unit.status == SPW_UNIT_UP);
    count("draining", unit.status == SPW_UNIT_DRAINING);
    count("down", unit.status == SPW_UNIT_DOWN);
    count("ejected", unit.ejected);
    count("silent", unit.silent);
    count("busy", unit.busy);
    count("failing", unit.health.failing);
    count("unresolved", !unit.resolved);
  }
  // Each unit once, however many services' checks it fails.
  std::set<std::tuple<std::string, std::string, std::string>> failing_checks;
  for (const auto& check : s.checks)
    if (check.state == health::CheckState::kFailing)
      failing_checks.insert({check.pool, check.server, check.unit});
  units["failing_checks"] = failing_checks.size();
  return Json({{"version", s.version},
               {"instance", s.instance},
               {"pid", getpid()},
               {"uptime_s", control.uptime_s()},
               {"adopted", s.adopted},
               {"config_file", control.info().config_path},
               {"applied_file", s.applied_file},
               {"last_apply_ok", s.last_apply_ok},
               {"interfaces", ToJson(s.interfaces)},
               {"services", s.services.size()},
               {"fail_open", std::ranges::count_if(s.services, &switching::ServiceView::fail_open)},
               {"units", std::move(units)},
               {"flow_table", ToJson(s.flow_table)}});
}

Response Units(const Control& control) {
  const Snapshot s = control.Read();
  return Json(UnitsWithHealth(s.units, s.checks));
}

Response Metrics(const Control& control) {
  return {.body = MetricsText(control.Read()), .content_type = kMetricsType};
}

bool WantsDryRun(const Request& request) {
  const auto found = request.query.find("dry_run");
  return found != request.query.end() && (found->second == "1" || found->second == "true");
}

// A misspelt dry_run must not change the switch.
Result<void> CheckQuery(const Request& request, std::initializer_list<std::string_view> known) {
  for (const auto& [key, value] : request.query) {
    if (std::find(known.begin(), known.end(), key) == known.end())
      return Fail(ErrorCode::kBadInput,
                  known.size() == 0 ? fmt::format("unknown parameter {}, expected none", yaml::Excerpt(key))
                                    : fmt::format("unknown parameter {}, known are {}", yaml::Excerpt(key),
                                                  fmt::join(known, ", ")));
    if (key == "dry_run" && value != "1" && value != "true" && value != "0" && value != "false")
      return Fail(ErrorCode::kBadInput,
                  fmt::format("dry_run: expected 1, true, 0 or false, got {}", yaml::Excerpt(value)));
  }
  return {};
}

// The name by which messages call the body, and the base of its relative paths.
std::string FileName(const Request& request) {
  const auto found = request.query.find("name");
  return found == request.query.end() || found->second.empty() ? "request" : found->second;
}

Response Check(Control& control, const Request& request) {
  if (const auto good = CheckQuery(request, {"name"}); !good) return ResponseTo(good.error());
  const auto report = control.Check(request.body, FileName(request));
  if (!report) return ResponseTo(report.error());
  return Json({{"valid", true}, {"changes", report->changes}, {"notes", report->notes}});
}

Response Apply(Control& control, const Request& request) {
  if (const auto good = CheckQuery(request, {"name", "dry_run"}); !good) return ResponseTo(good.error());
  if (WantsDryRun(request)) {
    const auto report = control.Check(request.body, FileName(request));
    if (!report) return ResponseTo(report.error());
    return Json({{"dry_run", true}, {"changes", report->changes}, {"notes", report->notes}});
  }
  const auto report = control.Apply(request.body, FileName(request));
  if (!report) return ResponseTo(report.error());
  json body = ToJson(*report);
  body["dry_run"] = false;
  return Json(body);
}

Response ChangeUnit(Control& control, const std::vector<std::string>& parts, const Request& request) {
  if (const auto good = CheckQuery(request, {}); !good) return ResponseTo(good.error());
  const auto change = ParseUnitChange(request.body);
  if (!change) return ResponseTo(change.error());
  const auto done = control.ChangeUnit(parts[2], parts[3], parts[4], *change);
  if (!done) return NotFound(fmt::format("{}/{}/{}: no such unit", parts[2], parts[3], parts[4]));
  if (!*done) return ResponseTo(done->error());
  const Snapshot s = control.Read();
  for (const auto& unit : s.units)
    if (unit.pool == parts[2] && unit.server == parts[3] && unit.unit == parts[4]) {
      json answer = UnitsWithHealth({unit}, s.checks)[0];
      if (!(*done)->empty()) answer["notes"] = **done;
      return Json(answer);
    }
  return Json(json::object());
}

Response ChangeService(Control& control, const std::string& name, const Request& request) {
  if (const auto good = CheckQuery(request, {}); !good) return ResponseTo(good.error());
  const auto change = ParseServiceChange(request.body);
  if (!change) return ResponseTo(change.error());
  const auto done = control.ChangeService(name, *change);
  if (!done) return NotFound(fmt::format("{}: no such service", name));
  if (!*done) return ResponseTo(done->error());
  json body = ToJson(**done);
  body["dry_run"] = false;  // as an apply's answer, which has the same fields
  return Json(body);
}

Response NotAllowed(const std::string& allow) {
  Response response = ErrorResponse(405, "bad_input", "expected " + allow);
  response.allow = allow;
  return response;
}

}  // namespace

Response RouteMetrics(Control& control, const Request& request) {
  if (request.path != "/metrics") return NotFound(request.path + ": only /metrics is served here");
  return request.method == "GET" ? Metrics(control) : NotAllowed("GET");
}

Response Route(Control& control, const Request& request) {
  const std::vector<std::string> parts = Split(request.path);
  const bool get = request.method == "GET", post = request.method == "POST";
  if (request.path == "/metrics") return get ? Metrics(control) : NotAllowed("GET");
  if (parts.size() < 2 || parts[0] != "v1") return NotFound(request.path + ": no such endpoint");

  const std::string& what = parts[1];
  if (parts.size() == 2) {
    if (what == "check") return post ? Check(control, request) : NotAllowed("POST");
    if (what == "apply") return post ? Apply(control, request) : NotAllowed("POST");
    if (what == "status") return get ? Status(control) : NotAllowed("GET");
    if (what == "interfaces") return get ? Json(ToJson(control.Read().interfaces)) : NotAllowed("GET");
    if (what == "units") return get ? Units(control) : NotAllowed("GET");
    if (what == "health") return get ? Json(ToJson(control.Checks())) : NotAllowed("GET");
    if (what == "services") return get ? Json(ToJson(control.Read().services)) : NotAllowed("GET");
    if (what == "counters") return get ? Json(ToJson(control.Read().counters)) : NotAllowed("GET");
    if (what == "flow-table") return get ? Json(ToJson(control.Read().flow_table)) : NotAllowed("GET");
    if (what == "config")
      return get ? Response{.body = control.ConfigYaml(), .content_type = kYamlType} : NotAllowed("GET");
  }
  if (what == "units" && parts.size() == 5)
    return post ? ChangeUnit(control, parts, request) : NotAllowed("POST");
  if (what == "services" && parts.size() == 3)
    return post ? ChangeService(control, parts[2], request) : NotAllowed("POST");
  return NotFound(request.path + ": no such endpoint");
}

}  // namespace spillway::api

// SPDX-License-Identifier: Apache-2.0
// spillway show, spillway metrics.
#include "verbs.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/print.h"
#include "cli/client_output.h"
#include "cli/unit_table.h"
#include "command/exit_code.h"
#include "report/table.h"

namespace spillway::command {
namespace {

using nlohmann::json;
using report::Table;

std::string Joined(const json& words) {
  std::string text;
  for (const auto& word : words) text += (text.empty() ? "" : " ") + word.get<std::string>();
  return text;
}

std::string StatusText(const json& s) {
  std::string text = fmt::format(
      "spillwayd {}  instance {}  pid {}  up {:.0f} s{}\nconfiguration  {}{}\n",
      s.at("version").get<std::string>(), s.at("instance").get<std::string>(), s.at("pid").get<int>(),
      s.at("uptime_s").get<double>(), s.at("adopted").get<bool>() ? "  (data plane adopted)" : "",
      s.value("applied_file", s.at("config_file").get<std::string>()),
      s.at("last_apply_ok").get<bool>() ? "" : "  (the last one offered was refused)");
  if (s.value("applied_file", s.at("config_file").get<std::string>()) !=
      s.at("config_file").get<std::string>())
    text += fmt::format("               SIGHUP goes back to {}\n", s.at("config_file").get<std::string>());
  for (const auto& interface : s.at("interfaces")) {
    const auto why = interface.at("why_generic").get<std::string>();
    text += fmt::format("interface      {}: {}{}\n", interface.at("name").get<std::string>(),
                        interface.at("mode").get<std::string>(), why.empty() ? "" : ", because " + why);
  }
  text += fmt::format("services       {}", s.at("services").get<int>());
  if (const int open = s.value("fail_open", 0); open > 0)
    text += fmt::format(", {} fail-open: every unit fails or cannot be reached, so none is taken out", open);
  text += '\n';
  const auto& units = s.at("units");
  text += fmt::format("units          {} up, {} draining, {} down; {} silent, {} busy",
                      units.at("up").get<int>(), units.at("draining").get<int>(), units.at("down").get<int>(),
                      units.at("silent").get<int>(), units.at("busy").get<int>());
  if (const int failing = units.value("failing", 0); failing > 0)
    text += fmt::format(", {} failing according to their agents", failing);
  if (const int failing = units.value("failing_checks", 0); failing > 0)
    text += fmt::format(", {} failing their checks ({} ejected)", failing, units.value("ejected", 0));
  if (const int unresolved = units.at("unresolved").get<int>(); unresolved > 0)
    text += fmt::format(", {} unresolved (next hop unknown; no new flows)", unresolved);
  const auto& table = s.at("flow_table");
  const auto capacity = table.at("capacity").get<double>(), used = table.at("used").get<double>();
  text += fmt::format("\nflow table     {} of {} entries used ({:.1f} %)\n", Scaled(used), Scaled(capacity),
                      capacity > 0 ? 100 * used / capacity : 0);
  return text;
}

std::string ServicesText(const json& services) {
  Table table({{"service", "SERVICE"},
               {"vip", "VIP"},
               {"ports", "PORTS"},
               {"pool", "POOL"},
               {"mode", "MODE"},
               {"affinity", "AFFINITY"},
               {"server_policy", "SERVER POLICY"},
               {"unit_policy", "UNIT POLICY"},
               {"moved", "SLOTS MOVED"},
               {"packets", "PACKETS"},
               {"new_flows", "NEW FLOWS"}});
  for (const auto& s : services)
    table.AddRow(
        {s.at("name").get<std::string>(), s.at("vip").get<std::string>(), Joined(s.at("ports")),
         s.at("pool").get<std::string>(), s.at("mode").get<std::string>(),
         s.at("affinity").get<std::string>(), s.at("server_policy").get<std::string>(),
         s.at("unit_policy").get<std::string>(),
         fmt::format("{}/{}", s.at("slots_moved").get<uint64_t>(), s.at("ring_slots").get<uint64_t>()),
         s.at("packets").get<int64_t>(), s.at("new_flows").get<int64_t>()});
  return table.Text();
}

std::string HealthText(const json& checks) {
  if (checks.empty()) return "no service has a health check\n";
  Table table({{"service", "SERVICE"},
               {"unit", "UNIT"},
               {"check", "CHECK"},
               {"state", "STATE"},
               {"state_s", "SINCE [s]", 1},
               {"held_s", "HELD [s]", 1},
               {"passed", "PASSED"},
               {"failed", "FAILED"},
               {"skipped", "SKIPPED"},
               {"changes", "CHANGES"},
               {"last_ms", "LAST [ms]", 3},
               {"reason", "LAST FAILURE"},
               {"skip_reason", "LAST SKIPPED"}});
  for (const auto& c : checks)
    table.AddRow({c.at("service").get<std::string>(),
                  fmt::format("{}/{}/{}", c.at("pool").get<std::string>(), c.at("server").get<std::string>(),
                              c.at("unit").get<std::string>()),
                  c.at("check").get<std::string>(), c.at("state").get<std::string>(),
                  c.at("state_s").get<double>(), c.at("held_s").get<double>(), c.at("passed").get<int64_t>(),
                  c.at("failed").get<int64_t>(), c.at("skipped").get<int64_t>(),
                  c.at("changes").get<int64_t>(),
                  c.at("last_ms").is_null() ? report::Cell() : report::Cell(c.at("last_ms").get<double>()),
                  c.at("reason").get<std::string>(), c.at("skip_reason").get<std::string>()});
  return table.Text();
}

std::string InterfacesText(const json& interfaces) {
  Table table(
      {{"interface", "INTERFACE"}, {"ifindex", "INDEX"}, {"mode", "XDP MODE"}, {"why", "WHY GENERIC"}});
  for (const auto& i : interfaces)
    table.AddRow({i.at("name").get<std::string>(), i.at("ifindex").get<int64_t>(),
                  i.at("mode").get<std::string>(), i.at("why_generic").get<std::string>()});
  return table.Text();
}

std::string FlowTableText(const json& t) {
  return fmt::format("capacity   {} entries\nused       {} entries, as of a sweep {:.1f} s ago\n",
                     t.at("capacity").get<uint64_t>(), t.at("used").get<uint64_t>(),
                     t.at("sweep_age_s").get<double>());
}

int ShowConfig(const Context& context) {
  api::Client client(context.api);
  const auto yaml = GetText(client, "/v1/config");
  if (!yaml) return Complain(yaml.error());
  if (context.json)
    PrintJson({{"yaml", *yaml}});
  else
    base::Print("{}", *yaml);
  return kExitOk;
}

int Show(const std::string& what, const Context& context) {
  if (what == "config") return ShowConfig(context);
  api::Client client(context.api);
  const auto answer = GetJson(client, "/v1/" + what);
  if (!answer) return Complain(answer.error());
  if (context.json)
    PrintJson(*answer);
  else if (what == "status")
    base::Print("{}", StatusText(*answer));
  else if (what == "units")
    base::Print("{}", UnitTable(*answer).Text());
  else if (what == "services")
    base::Print("{}", ServicesText(*answer));
  else if (what == "health")
    base::Print("{}", HealthText(*answer));
  else if (what == "interfaces")
    base::Print("{}", InterfacesText(*answer));
  else
    base::Print("{}", FlowTableText(*answer));
  return kExitOk;
}

int Metrics(const Context& context) {
  api::Client client(context.api);
  const auto text = GetText(client, "/metrics");
  if (!text) return Complain(text.error());
  if (context.json)
    PrintJson({{"prometheus", *text}});
  else
    base::Print("{}", *text);
  return kExitOk;
}

}  // namespace

void AddShowVerbs(CLI::App& app, Context& context) {
  auto what = std::make_shared<std::string>("status");
  CLI::App* show = app.add_subcommand("show", "Show the daemon's configuration and state");
  show->add_option("WHAT", *what, "status, units, health, services, interfaces, config or flow-table")
      ->capture_default_str()
      ->check(CLI::IsMember({"status", "units", "health", "services", "interfaces", "config", "flow-table"}));
  show->callback([what, &context] { context.action = [what, &context] { return Show(*what, context); }; });

  CLI::App* metrics = app.add_subcommand("metrics", "Print the daemon's metrics in Prometheus text format");
  metrics->callback([&context] { context.action = [&context] { return Metrics(context); }; });
}

}  // namespace spillway::command

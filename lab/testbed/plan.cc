// SPDX-License-Identifier: Apache-2.0
#include "plan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "model/yaml.h"
#include "workloads.h"

namespace spillway::lab {
namespace {

constexpr const char* kPool = "lab";

model::Address Addr(const std::string& text) { return *model::Address::Parse(text); }

Link MakeLink(const std::string& testbed, const std::string& label, size_t number) {
  return {label,
          NetnsName(testbed, label),
          fmt::format("10.77.{}.1", number),
          fmt::format("10.77.{}.2", number),
          fmt::format("fd77:0:0:{:x}::1", number),
          fmt::format("fd77:0:0:{:x}::2", number)};
}

std::string Micros2Text(Micros time) { return fmt::format("{}us", time.count()); }

std::string ReportEndpoint(const model::Address& host) {
  const std::string text = host.ToString();
  return host.family == 4 ? fmt::format("\"{}:{}\"", text, SPW_REPORT_PORT)
                          : fmt::format("\"[{}]:{}\"", text, SPW_REPORT_PORT);
}

// `listeners`: who is reported to.
std::string AgentYaml(const TestbedSpec& spec, const std::vector<model::Address>& listeners,
                      uint32_t server_code, size_t unit, const std::string& key_file,
                      const std::string& state_file) {
  std::vector<std::string> switches;
  for (const model::Address& host : listeners) switches.push_back(ReportEndpoint(host));
  std::vector<std::string> ports;
  bool dns = false;
  for (const ServiceSpec& service : spec.services)
    for (const model::ServicePort& port : service.ports) {
      std::string text = model::ToString(port);
      // Services on different VIPs may share ports; the agent sees one unit's interface.
      if (std::find(ports.begin(), ports.end(), text) == ports.end()) ports.push_back(std::move(text));
      dns = dns || port.port == 53;
    }
  const AgentSpec& a = spec.agent;
  return fmt::format(
      "switches: [{}]\n"
      "server: {{code: {}, key_file: {}}}\n"
      "unit: {}\n"
      "state_file: {}\n"
      "interface: eth0\n"
      "services: [{}]\n"
      "meter: {{kind: latency, {}{}source: auto, timeout: {}}}\n"
      "trigger: {{threshold: {}, release_ratio: {}, second_report_after: {}}}\n"
      "report: {{mode: {}, period: {}, heartbeat: {}}}\n",
      fmt::join(switches, ", "), server_code, key_file, unit, state_file, fmt::join(ports, ", "),
      dns ? "protocol: dns, " : "", a.cgroup ? "" : "cgroup: none, ", Micros2Text(a.timeout),
      Micros2Text(a.threshold), a.release_ratio, Micros2Text(a.second_report_after), a.mode,
      Micros2Text(a.period), Micros2Text(a.heartbeat));
}

void AddServices(const TestbedSpec& spec, Plan& plan) {
  size_t given = 0;
  for (const ServiceSpec& s : spec.services) {
    model::Service service;
    service.name = s.name;
    given++;
    service.vip = s.vip ? *s.vip
                        : Addr(spec.family == 4 ? fmt::format("10.77.255.{}", given)
                                                : fmt::format("fd77:0:0:ffff::{:x}", given));
    service.ports = s.ports;
    service.pool = kPool;
    service.mode = s.mode;
    service.affinity = s.affinity;
    service.server_policy = s.server_policy;
    service.unit_policy = s.unit_policy;
    service.health = s.health;
    if (s.mode == SPW_MODE_DSR_L2) plan.dsr_vips.push_back(service.vip.ToString());
    plan.config.services.push_back(std::move(service));
  }
}

// Index of the unit on which a server's balancer runs.
size_t NicOf(const ServerSpec& server) {
  const auto nic = std::find_if(server.units.begin(), server.units.end(),
                                [](const UnitSpec& u) { return u.kind == SPW_KIND_SMARTNIC; });
  return static_cast<size_t>(nic - server.units.begin());
}

NicBalancer PlanNicBalancer(const TestbedSpec& spec, const ServerSpec& server, const Plan& plan,
                            size_t link_number, const Paths& paths) {
  const Link& link = plan.links[link_number];
  const UnitSpec& nic = server.units[NicOf(server)];
  NicBalancer balancer;
  balancer.front = Addr(spec.family == 4 ? fmt::format("10.77.{}.3", link_number)
                                         : fmt::format("fd77:0:0:{:x}::3", link_number));
  balancer.link = link.label;
  balancer.process = {link.label + ".balancer",
                      link.netns,
                      {paths.programs + "/spillway-nic-balancer", "--pool", paths.folder + "/pool.yaml",
                       "--service", spec.services[0].name, "--server", server.name, "--interface", "eth0",
                       "--front", balancer.front.ToString(), "--mac", kFrontMac},
                      spec.cpus.units,
                      nic.quota,
                      {{{model::Protocol::kUdp, SPW_REPORT_PORT}}, {}},
                      link.label};
  return balancer;
}

ProcessPlan PlanNeighbour(const TestbedSpec& spec, const UnitPlan& unit, const Paths& paths) {
  const Neighbour& neighbour = *unit.spec.neighbour;
  return {unit.label + ".neighbour",
          unit.netns,
          {paths.programs + "/spillway-neighbour", "--every", Micros2Text(neighbour.every), "--for",
           Micros2Text(neighbour.busy)},
          spec.cpus.units,
          unit.spec.quota,
          {},
          unit.label};
}

// The same pool while the balancers on the NICs decide: the switch sends all to the fronts.
model::Config FrontsOnly(model::Config config) {
  for (model::Pool& pool : config.pools)
    for (model::Server& server : pool.servers)
      for (model::Unit& unit : server.units) unit.drain = unit.name != kFrontUnit;
  for (model::Service& service : config.services) service.unit_policy = SPW_UNIT_WRR;
  return config;
}

// A server with its units, agents and, where the testbed has them, the balancer on its SmartNIC: what runs
// for it goes into the plan.
model::Server PlanServer(const TestbedSpec& spec, const ServerSpec& s, uint32_t code, const Paths& paths,
                         Plan& plan) {
  model::Server server;
  server.name = s.name;
  server.code = code;
  server.key_file = fmt::format("{}/{}.key", paths.folder, s.name);
  plan.key_files.push_back(server.key_file);
  std::vector<model::Address> listeners{plan.config.data_plane.report->address};
  const size_t first_link = plan.links.size();
  if (spec.nic_balancers) {
    const size_t nic = NicOf(s), number = first_link + nic;
    const Link link = MakeLink(spec.name, s.name, number);
    listeners.push_back(s.units[nic].address ? *s.units[nic].address
                                             : Addr(spec.family == 4 ? link.peer_v4 : link.peer_v6));
  }
  for (const UnitSpec& u : s.units) {
    const std::string label = s.name + "-" + u.name;
    const Link link = MakeLink(spec.name, label, plan.links.size());
    UnitPlan unit{label, link.netns, s.name, u, {}, {}, {}, {}};
    unit.address = u.address ? *u.address : Addr(spec.family == 4 ? link.peer_v4 : link.peer_v6);
    WorkloadPlan work = PlanWorkload(spec, plan.config, unit, paths);
    plan.files.merge(work.files);
    unit.server_process = std::move(work.process);
    if (u.runs == Workload::kNginx && u.nginx.tls) plan.certificate = true;
    if (u.neighbour) unit.neighbour = PlanNeighbour(spec, unit, paths);
    if (spec.agent.run) {
      const std::string file = AgentFile(paths.folder, label);
      plan.files[file] = AgentYaml(spec, listeners, *server.code, server.units.size(), server.key_file,
                                   fmt::format("{}/{}.boot", paths.folder, label));
      unit.agent = ProcessPlan{label + ".agent",
                               link.netns,
                               {paths.programs + "/spillway-agent", "-c", file},
                               spec.cpus.daemons,
                               std::nullopt,
                               {.logged = "reports to"},  // what spillway-agent logs once it meters
                               {}};
    }
    server.units.push_back({u.name, u.kind, unit.address, u.capacity, false});
    plan.config.data_plane.interfaces.push_back(label);
    plan.links.push_back(link);
    plan.units.push_back(std::move(unit));
  }
  if (spec.nic_balancers) {
    plan.nic_balancers.push_back(PlanNicBalancer(spec, s, plan, first_link + NicOf(s), paths));
    server.units.push_back({kFrontUnit, SPW_KIND_OTHER, plan.nic_balancers.back().front, 1, true});
  }
  return server;
}

}  // namespace

std::string AgentFile(const std::string& folder, const std::string& label) {
  return fmt::format("{}/{}.agent.yaml", folder, label);
}

std::string NetnsName(const std::string& testbed, const std::string& label) {
  return fmt::format("spw-{}-{}", testbed, label);
}

Plan MakePlan(const TestbedSpec& spec, const Paths& paths) {
  Plan plan;
  plan.name = spec.name;
  plan.folder = paths.folder;
  plan.mtu = spec.mtu;
  plan.switch_netns = NetnsName(spec.name, "switch");
  plan.client_netns = NetnsName(spec.name, "client");
  plan.links.push_back(MakeLink(spec.name, "client", 0));
  plan.config.data_plane.flow_table_entries = spec.flow_table_entries;
  plan.config.data_plane.interfaces.push_back("client");
  plan.config.data_plane.report.emplace();
  plan.config.data_plane.report->address =
      Addr(spec.family == 4 ? plan.links[0].switch_v4 : plan.links[0].switch_v6);
  AddServices(spec, plan);

  model::Pool pool;
  pool.name = kPool;
  for (const ServerSpec& s : spec.servers)
    pool.servers.push_back(PlanServer(spec, s, static_cast<uint32_t>(pool.servers.size()), paths, plan));
  plan.config.pools.push_back(std::move(pool));

  plan.pool_file = paths.folder + "/pool.yaml";
  plan.api_socket = paths.folder + "/api.sock";
  plan.files[plan.pool_file] = model::ToYaml(plan.config);
  plan.nic_pool_file = paths.folder + "/pool-nic.yaml";
  if (spec.nic_balancers) plan.files[plan.nic_pool_file] = model::ToYaml(FrontsOnly(plan.config));
  plan.files[paths.folder + "/queries.txt"] = QueryFileText();
  plan.daemon = {"spillwayd",
                 plan.switch_netns,
                 {paths.programs + "/spillwayd", "-c", plan.pool_file, "--instance", "lab-" + spec.name,
                  "--run-dir", paths.folder, "--api", plan.api_socket},
                 spec.cpus.daemons,
                 std::nullopt,
                 {{}, plan.api_socket},
                 {}};
  return plan;
}

}  // namespace spillway::lab

// SPDX-License-Identifier: Apache-2.0
#include "spec_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "base/yaml/documents.h"
#include "model/scalars.h"
#include "plan.h"

namespace spillway::lab {
namespace {

using yaml::Field;
using yaml::MapReader;
using yaml::Problems;
using yaml::Take;

constexpr size_t kLongestInterface = 15;  // IFNAMSIZ - 1; the switch's end of a link is named "server-unit"
constexpr size_t kMaxUnits = 250;         // one link number each in 10.77.N.0/24

void ReadCpus(Problems& problems, const MapReader& map, std::string_view key, std::vector<int>& into) {
  const Field* field = map.Find(key);
  if (field == nullptr) return;
  for (const Field& entry : yaml::ReadList(problems, *field, "a list of CPU numbers"))
    if (auto cpu = yaml::ReadInteger(problems, entry, 0, 1023)) into.push_back(static_cast<int>(*cpu));
}

CpuQuota ReadQuota(Problems& problems, const Field& field) {
  MapReader map(problems, field, {"quota", "period"});
  CpuQuota quota;
  auto time = [&](Micros least, Micros most) {
    return [&problems, least, most](const Field& f) { return ReadMicros(problems, f, least, most); };
  };
  Take(quota.quota, map.Need("quota", "CPU time per period"), time(Micros(1000), Micros(1'000'000)));
  Take(quota.period, map.Need("period", "a time"), time(Micros(1000), Micros(1'000'000)));
  return quota;
}

void ReadEmulated(Problems& problems, const Field& field, Emulated& e) {
  MapReader map(problems, field, {"workers", "service", "cv", "latency"});
  if (const Field* f = map.Find("workers"))
    if (auto n = yaml::ReadInteger(problems, *f, 1, 1024)) e.workers = static_cast<uint32_t>(*n);
  Take(e.service, map.Need("service", "the mean service time"),
       [&](const Field& f) { return ReadMicros(problems, f, Micros(1), Micros(60'000'000)); });
  Take(e.cv, map.Find("cv"), [&](const Field& f) { return ReadNumber(problems, f, 0, 10); });
  Take(e.latency, map.Find("latency"),
       [&](const Field& f) { return ReadMicros(problems, f, Micros(0), Micros(60'000'000)); });
}

void ReadKnot(Problems& problems, const Field& field, KnotSigning& knot) {
  MapReader map(problems, field, {"algorithm", "key_bits"});
  Take(knot.algorithm, map.Find("algorithm"), [&](const Field& f) { return yaml::ReadName(problems, f); });
  if (const Field* f = map.Find("key_bits"))
    if (auto n = yaml::ReadInteger(problems, *f, 1024, 4096)) knot.key_bits = static_cast<uint32_t>(*n);
}

Neighbour ReadNeighbour(Problems& problems, const Field& field) {
  MapReader map(problems, field, {"every", "for"});
  Neighbour neighbour;
  const auto time = [&](const Field& f) {
    return ReadMicros(problems, f, Micros(1000), Micros(3600'000'000));
  };
  Take(neighbour.every, map.Need("every", "a time"), time);
  Take(neighbour.busy, map.Need("for", "a time"), time);
  if (neighbour.busy > neighbour.every)
    problems.Add(field.line, field.path + ".for", "expected a time no longer than `every`");
  return neighbour;
}

// `runs:` is a word, or a map of one key, such as {emulated: {...}}.
void ReadWorkload(Problems& problems, const Field& field, UnitSpec& unit) {
  if (field.node.IsMap()) {
    MapReader map(problems, field, {"emulated", "knot", "nginx", "synthetic", "vgg16", "knn"});
    if (field.node.size() > 1) problems.Add(field.line, field.path, "expected one key");
    if (const Field* knot = map.Find("knot")) {
      unit.runs = Workload::kKnot;
      ReadKnot(problems, *knot, unit.knot);
    } else if (const Field* nginx = map.Find("nginx")) {
      unit.runs = Workload::kNginx;
      MapReader keys(problems, *nginx, {"tls"});
      Take(unit.nginx.tls, keys.Find("tls"), [&](const Field& f) { return yaml::ReadBool(problems, f); });
    } else if (const Field* synthetic = map.Find("synthetic")) {
      ReadSynthetic(problems, *synthetic, unit);
    } else if (const Field* vgg16 = map.Find("vgg16")) {
      ReadVgg16(problems, *vgg16, unit);
    } else if (const Field* knn = map.Find("knn")) {
      ReadKnn(problems, *knn, unit);
    } else if (const Field* e = map.Need("emulated", "a map")) {
      unit.runs = Workload::kEmulated;
      ReadEmulated(problems, *e, unit.emulated);
    }
    return;
  }
  static const std::pair<const char*, Workload> kWords[] = {{"nsd", Workload::kNsd},
                                                            {"knot", Workload::kKnot},
                                                            {"nginx", Workload::kNginx},
                                                            {"none", Workload::kNone}};
  const char* expected =
      "one of nsd, knot, nginx, none, {knot: {...}}, {nginx: {tls: true}}, {emulated: {service: ...}}, "
      "{synthetic: {gflop: ...}}, "
      "{vgg16: {...}} or {knn: {...}}";
  auto text = yaml::ReadText(problems, field, expected);
  if (!text) return;
  for (const auto& [word, workload] : kWords)
    if (*text == word) {
      unit.runs = workload;
      return;
    }
  problems.Add(field.line, field.path,
               fmt::format("expected {}, got {}", expected, yaml::Describe(field.node)));
}

UnitSpec ReadUnit(Problems& problems, const Field& field, int family) {
  MapReader map(problems, field, {"name", "kind", "capacity", "address", "runs", "cpu_quota", "neighbour"});
  UnitSpec unit;
  Take(unit.name, map.Need("name", "a name"), [&](const Field& f) { return yaml::ReadName(problems, f); });
  Take(unit.kind, map.Find("kind"), [&](const Field& f) {
    return model::ReadWord<spw_unit_kind>(problems, f, model::ParseUnitKind, SPW_KIND_OTHER + 1);
  });
  Take(unit.capacity, map.Find("capacity"), [&](const Field& f) { return yaml::ReadPositive(problems, f); });
  if (const Field* f = map.Find("address"); f != nullptr && f->node.Scalar() != "auto") {
    unit.address = model::ReadAddress(problems, *f);
    if (unit.address && unit.address->family != family)
      problems.Add(f->line, f->path,
                   fmt::format("expected an IPv{} address, as the testbed's family", family));
  }
  if (const Field* f = map.Find("runs")) ReadWorkload(problems, *f, unit);
  if (const Field* f = map.Find("cpu_quota")) unit.quota = ReadQuota(problems, *f);
  if (const Field* f = map.Find("neighbour")) unit.neighbour = ReadNeighbour(problems, *f);
  return unit;
}

void ReadServers(Problems& problems, const Field& field, TestbedSpec& spec) {
  std::set<std::string> links;
  for (const Field& entry : yaml::ReadList(problems, field, "a list of servers")) {
    MapReader map(problems, entry, {"name", "units"});
    ServerSpec server;
    Take(server.name, map.Need("name", "a name"),
         [&](const Field& f) { return yaml::ReadName(problems, f); });
    const Field* units = map.Need("units", "a list of units");
    if (units == nullptr) continue;
    for (const Field& unit : yaml::ReadList(problems, *units, "a list of units")) {
      server.units.push_back(ReadUnit(problems, unit, spec.family));
      const std::string link = server.name + "-" + server.units.back().name;
      if (link.size() > kLongestInterface)
        problems.Add(unit.line, unit.path,
                     fmt::format("expected server and unit names of {} characters together, as {} names an "
                                 "interface",
                                 kLongestInterface - 1, link));
      if (!links.insert(link).second)
        problems.Add(unit.line, unit.path, fmt::format("{} stands twice", link));
    }
    if (server.units.empty() || server.units.size() > SPW_UNITS_PER_SERVER)
      problems.Add(units->line, units->path, fmt::format("expected 1 to {} units", SPW_UNITS_PER_SERVER));
    spec.servers.push_back(std::move(server));
  }
  if (spec.servers.empty()) problems.Add(field.line, field.path, "expected at least one server");
  if (links.size() > kMaxUnits)
    problems.Add(field.line, field.path, fmt::format("expected at most {} units in all", kMaxUnits));
}

ServiceSpec ReadService(Problems& problems, const Field& field, int family) {
  MapReader map(problems, field,
                {"name", "vip", "ports", "mode", "affinity", "server_policy", "unit_policy"});
  ServiceSpec service;
  Take(service.name, map.Need("name", "a name"), [&](const Field& f) { return yaml::ReadName(problems, f); });
  if (const Field* f = map.Find("vip"); f != nullptr && f->node.Scalar() != "auto") {
    service.vip = model::ReadAddress(problems, *f);
    if (service.vip && service.vip->family != family)
      problems.Add(f->line, f->path,
                   fmt::format("expected an IPv{} address, as the testbed's family", family));
  }
  if (const Field* f = map.Need("ports", "a list such as [udp/53]")) {
    for (const Field& port : yaml::ReadList(problems, *f, "a list such as [udp/53]"))
      if (auto value = model::ReadServicePort(problems, port)) service.ports.push_back(*value);
    if (service.ports.empty()) problems.Add(f->line, f->path, "expected at least one port");
  }
  Take(service.mode, map.Find("mode"), [&](const Field& f) {
    return model::ReadWord<spw_mode>(problems, f, model::ParseMode, SPW_MODE_DSR_L2 + 1);
  });
  Take(service.affinity, map.Find("affinity"), [&](const Field& f) {
    return model::ReadWord<spw_affinity>(problems, f, model::ParseAffinity, SPW_AFFINITY_NONE + 1);
  });
  Take(service.server_policy, map.Find("server_policy"), [&](const Field& f) {
    return model::ReadWord<spw_server_policy>(problems, f, model::ParseServerPolicy, SPW_SERVER_POLICIES);
  });
  Take(service.unit_policy, map.Find("unit_policy"), [&](const Field& f) {
    return model::ReadWord<spw_unit_policy>(problems, f, model::ParseUnitPolicy, SPW_UNIT_POLICIES);
  });
  return service;
}

// When an agent reports, and what. The agent itself takes no other times.
void ReadReporting(Problems& problems, const MapReader& map, AgentSpec& agent) {
  auto time = [&](const Field& f) { return ReadMicros(problems, f, Micros(0), Micros(60'000'000)); };
  if (const Field* f = map.Find("threshold")) {
    Take(agent.threshold, f,
         [&](const Field& g) { return ReadMicros(problems, g, Micros(2), Micros(60'000'000)); });
    if (agent.threshold >= agent.timeout)
      problems.Add(f->line, f->path,
                   fmt::format("expected less than the agent's timeout, {}us", agent.timeout.count()));
  }
  Take(agent.release_ratio, map.Find("release_ratio"),
       [&](const Field& f) { return ReadNumber(problems, f, 0, 1); });
  Take(agent.second_report_after, map.Find("second_report_after"), time);
  Take(agent.period, map.Find("period"),
       [&](const Field& f) { return ReadMicros(problems, f, Micros(1000), Micros(10'000'000)); });
  Take(agent.heartbeat, map.Find("heartbeat"), time);
  Take(agent.cgroup, map.Find("cgroup"), [&](const Field& f) { return yaml::ReadBool(problems, f); });
  if (const Field* f = map.Find("mode")) {
    Take(agent.mode, f,
         [&](const Field& g) { return yaml::ReadText(problems, g, "one of periodic, on-threshold"); });
    if (agent.mode != "periodic" && agent.mode != "on-threshold")
      problems.Add(f->line, f->path,
                   "expected one of periodic, on-threshold, got " + yaml::Describe(f->node));
  }
}

void ReadAgent(Problems& problems, const Field& field, AgentSpec& agent) {
  MapReader map(problems, field,
                {"run", "threshold", "release_ratio", "second_report_after", "timeout", "mode", "period",
                 "heartbeat", "cgroup"});
  Take(agent.run, map.Find("run"), [&](const Field& f) { return yaml::ReadBool(problems, f); });
  Take(agent.timeout, map.Find("timeout"),
       [&](const Field& f) { return ReadMicros(problems, f, Micros(0), Micros(60'000'000)); });
  ReadReporting(problems, map, agent);
}

}  // namespace

TestbedSpec ReadTestbed(Problems& problems, const Field& field) {
  MapReader map(
      problems, field,
      {"name", "family", "mtu", "services", "agent", "cpus", "servers", "flow_table_entries", "balancer"});
  TestbedSpec spec;
  Take(spec.name, map.Need("name", "a name"), [&](const Field& f) { return yaml::ReadName(problems, f); });
  if (spec.name.size() > 24)  // spillwayd's instance "lab-<name>" has 32
    problems.Add(map.Find("name")->line, map.Find("name")->path, "expected at most 24 characters");
  if (const Field* f = map.Find("family")) {
    auto family = yaml::ReadInteger(problems, *f, 4, 6);
    if (family && *family == 5) problems.Add(f->line, f->path, "expected 4 or 6, got 5");
    if (family) spec.family = static_cast<int>(*family);
  }
  if (const Field* f = map.Find("mtu"))
    if (auto mtu = yaml::ReadInteger(problems, *f, 1280, 3498)) spec.mtu = static_cast<int>(*mtu);
  if (const Field* f = map.Find("flow_table_entries"))
    if (auto n = yaml::ReadInteger(problems, *f, 1024, 1u << 28)) spec.flow_table_entries = *n;
  if (const Field* f = map.Need("services", "a list of services"))
    for (const Field& entry : yaml::ReadList(problems, *f, "a list of services"))
      spec.services.push_back(ReadService(problems, entry, spec.family));
  if (const Field* f = map.Find("agent")) ReadAgent(problems, *f, spec.agent);
  if (const Field* f = map.Find("cpus")) {
    MapReader cpus(problems, *f, {"client", "units", "daemons"});
    ReadCpus(problems, cpus, "client", spec.cpus.client);
    ReadCpus(problems, cpus, "units", spec.cpus.units);
    ReadCpus(problems, cpus, "daemons", spec.cpus.daemons);
  }
  if (const Field* f = map.Need("servers", "a list of servers")) ReadServers(problems, *f, spec);
  if (const Field* f = map.Find("balancer")) {
    Take(spec.balancer, f, [&](const Field& g) { return ReadBalancerPlace(problems, g); });
    spec.nic_balancers = spec.balancer == BalancerPlace::kNic;
    if (spec.nic_balancers) CheckNicBalancers(problems, *f, spec);
  }
  return spec;
}

void ReadAgentSettings(Problems& problems, const Field& field, AgentSpec& agent) {
  MapReader map(
      problems, field,
      {"threshold", "release_ratio", "second_report_after", "mode", "period", "heartbeat", "cgroup"});
  if (!agent.run)
    problems.Add(field.line, field.path,
                 "allowed only if the testbed runs agents, got testbed.agent.run: false");
  ReadReporting(problems, map, agent);
}

std::optional<Micros> ReadMicros(Problems& problems, const Field& field, Micros least, Micros most) {
  const auto time = yaml::ReadTime(problems, field, least, most);
  if (!time) return std::nullopt;
  return std::chrono::round<Micros>(*time);
}

std::optional<BalancerPlace> ReadBalancerPlace(Problems& problems, const Field& field) {
  const auto text = yaml::ReadText(problems, field, "one of switch, nic");
  if (!text) return std::nullopt;
  if (*text == "switch") return BalancerPlace::kSwitch;
  if (*text == "nic") return BalancerPlace::kNic;
  problems.Add(field.line, field.path, "expected one of switch, nic, got " + yaml::Describe(field.node));
  return std::nullopt;
}

void CheckNicBalancers(Problems& problems, const Field& field, const TestbedSpec& spec) {
  const auto need = [&](bool met, const std::string& what) {
    if (!met) problems.Add(field.line, field.path, "expected, for a balancer on the NIC, " + what);
  };
  need(spec.services.size() == 1, "one service");
  for (const ServiceSpec& service : spec.services) {
    need(service.mode == SPW_MODE_NAT, "mode nat: the switch gives answers the VIP's address");
    need(std::all_of(service.ports.begin(), service.ports.end(),
                     [](const model::ServicePort& p) { return p.protocol == model::Protocol::kUdp; }),
         "UDP ports only");
  }
  for (const ServerSpec& server : spec.servers) {
    need(std::any_of(server.units.begin(), server.units.end(),
                     [](const UnitSpec& u) { return u.kind == SPW_KIND_SMARTNIC; }),
         "a unit of kind smartnic in " + server.name);
    need(server.units.size() < SPW_UNITS_PER_SERVER, "at most 7 units in " + server.name);
    need(std::none_of(server.units.begin(), server.units.end(),
                      [](const UnitSpec& u) { return u.name == kFrontUnit; }),
         fmt::format("no unit of {} to be called {}", server.name, kFrontUnit));
  }
}

Result<YAML::Node> LoadYaml(const std::string& path) {
  const auto text = yaml::ReadInputFile(path);
  if (!text) return tl::make_unexpected(text.error());
  try {
    return YAML::Load(*text);
  } catch (const YAML::Exception& e) {
    return Fail(ErrorCode::kBadInput, fmt::format("{}:{}: expected YAML: {}", path, e.mark.line + 1, e.msg));
  }
}

LabFile ReadLabFile(Problems& problems, const YAML::Node& root) {
  MapReader map(problems, Field{"", 1, root}, {"description", "testbed", "experiment"});
  LabFile file;
  if (const Field* f = map.Need("testbed", "a map, or the path of a lab file")) file.testbed = *f;
  if (const Field* f = map.Find("experiment")) file.experiment = *f;
  if (const Field* f = map.Find("description"))
    if (auto text = yaml::ReadText(problems, *f, "a line of text")) file.description = *text;
  return file;
}

Result<TestbedSpec> LoadTestbed(const std::string& path) {
  auto root = LoadYaml(path);
  if (!root) return tl::make_unexpected(root.error());
  Problems problems(path);
  const LabFile file = ReadLabFile(problems, *root);
  TestbedSpec spec;
  if (file.testbed && file.testbed->node.IsScalar()) {
    const std::filesystem::path other =
        std::filesystem::path(path).parent_path() / file.testbed->node.Scalar();
    // One step only: a chain of files, or a circle, is a mistake.
    auto inner = LoadYaml(other);
    if (!inner) return tl::make_unexpected(inner.error());
    Problems there(other);
    const LabFile inner_file = ReadLabFile(there, *inner);
    if (inner_file.testbed) spec = ReadTestbed(there, *inner_file.testbed);
    if (!there.none()) return tl::make_unexpected(there.ToError());
  } else if (file.testbed) {
    spec = ReadTestbed(problems, *file.testbed);
  }
  if (!problems.none()) return tl::make_unexpected(problems.ToError());
  return spec;
}

}  // namespace spillway::lab

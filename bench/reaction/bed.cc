// SPDX-License-Identifier: Apache-2.0
#include "bench/reaction/bed.h"

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <tuple>

#include "base/interrupt.h"
#include "bench/reaction/question_stream.h"
#include "lab/testbed/netns.h"
#include "report/file.h"

namespace spillway::bench {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;

constexpr auto kPoll = 2ms;
constexpr auto kLimit = 20s;
constexpr const char* kService = "asked";

std::string Command(pid_t pid) {
  std::ifstream in(fmt::format("/proc/{}/comm", pid));
  std::string name;
  std::getline(in, name);
  return name;
}

// A check each second, three failures: what users of Katran, IPVS and most proxies run.
model::HealthCheck Check(lab::Workload server) {
  model::HealthCheck check;
  check.interval_ms = 1000;
  check.timeout_ms = 500;
  check.fall = 3;
  check.rise = 2;
  check.dampening_ms = 0;  // round follows round
  if (server == lab::Workload::kKnot) {
    check.kind = model::CheckKind::kDns;
    check.port = 53;
    check.query = "h1.example.org";
  } else {
    check.kind = model::CheckKind::kHttp;
    check.port = 80;
    check.path = "/unit";
  }
  return check;
}

lab::TestbedSpec Spec(const BedSpec& bed) {
  const bool is_dns = bed.server == lab::Workload::kKnot;
  lab::TestbedSpec spec;
  spec.name = fmt::format("reaction{}", getpid());
  lab::ServiceSpec service;
  service.name = kService;
  service.ports = {is_dns ? model::ServicePort{model::Protocol::kUdp, 53}
                          : model::ServicePort{model::Protocol::kTcp, 80}};
  service.mode = SPW_MODE_DSR_L2;
  service.affinity = is_dns ? SPW_AFFINITY_NONE : SPW_AFFINITY_CONNECTION;
  service.unit_policy = SPW_UNIT_WRR;  // the others need agents
  if (bed.health != Health::kAgents) service.health = Check(bed.server);
  spec.services.push_back(service);
  lab::UnitSpec unit;
  unit.name = "cpu";
  unit.runs = bed.server;
  spec.servers = {{"s1", {unit}}, {"s2", {unit}}};
  if (bed.one_server) {
    spec.servers.pop_back();
    unit.name = "cpu2";
    spec.servers.front().units.push_back(unit);
  }
  spec.agent.run = bed.health != Health::kActive;
  spec.agent.period = std::chrono::milliseconds(bed.period_ms);
  return spec;
}

}  // namespace

const char* Word(lab::Workload server) { return server == lab::Workload::kKnot ? "knot" : "nginx"; }

const char* Word(Health health) {
  switch (health) {
    case Health::kAgents:
      return "agents";
    case Health::kActive:
      return "active";
    default:
      return "both";
  }
}

ReactionBed::ReactionBed(const BedSpec& spec, std::unique_ptr<lab::Testbed> testbed)
    : spec_(spec), testbed_(std::move(testbed)), client_(testbed_->plan().api_socket) {}

Result<std::unique_ptr<ReactionBed>> ReactionBed::Up(const BedSpec& spec) {
  auto testbed = lab::Testbed::Up(Spec(spec), {});
  if (!testbed) return tl::make_unexpected(testbed.error());
  return std::unique_ptr<ReactionBed>(new ReactionBed(spec, std::move(*testbed)));
}

std::unique_ptr<Asker> ReactionBed::MakeAsker() const {
  const model::Address& vip = plan().config.services.front().vip;
  return spec_.server == lab::Workload::kKnot ? MakeDnsAsker(vip) : MakeHttpAsker(vip);
}

Result<void> ReactionBed::Balance(spw_unit_policy policy) {
  return testbed_->Balance(kService, SPW_SERVER_MAGLEV, policy, lab::BalancerPlace::kSwitch);
}

// null when nobody answers.
json ReactionBed::View() {
  const auto text = api::Client::Accept(client_.Get("/v1/units"));
  return text ? json::parse(*text, nullptr, false) : json();
}

bool ReactionBed::IsWell() {
  const json units = View();
  if (!units.is_array() || units.empty()) return false;
  return std::all_of(units.begin(), units.end(), [this](const json& unit) {
    if (unit.at("resolved") == false) return false;
    if (spec_.health != Health::kActive && (!unit.at("failing").is_null() || unit.at("silent") == true))
      return false;
    return spec_.health == Health::kAgents || (unit.at("ejected") == false && unit.at("health").is_object() &&
                                               unit.at("health").at("state") == "up");
  });
}

Result<void> ReactionBed::AwaitWell() {
  for (const Moment end = Now() + kLimit; Now() < end;) {
    if (IsWell()) return {};
    if (!base::SleepUnlessInterrupted(kPoll)) return Fail(ErrorCode::kSystem, "interrupted");
  }
  return Fail(ErrorCode::kSystem,
              fmt::format("{} by {}: the switch did not show all units as well within {} s: {}",
                          Word(spec_.server), Word(spec_.health), kLimit.count(), View().dump()));
}

std::vector<uint64_t> ReactionBed::Packets() {
  const json units = View();
  std::vector<uint64_t> packets;
  for (const lab::UnitPlan& unit : plan().units)
    for (size_t i = 0; units.is_array() && i < units.size(); i++)
      if (units[i].at("address") == unit.address.ToString()) packets.push_back(units[i].at("packets"));
  return packets;
}

Result<void> ReactionBed::AimAtBusiest(const std::vector<uint64_t>& before) {
  const std::vector<uint64_t> now = Packets();
  if (before.size() != plan().units.size() || now.size() != before.size())
    return Fail(ErrorCode::kSystem, "the switch does not show what its units got");
  aim_ = 0;
  for (size_t i = 1; i < now.size(); i++)
    if (now[i] - before[i] > now[aim_] - before[aim_]) aim_ = i;
  return {};
}

std::vector<lab::ProcessId> ReactionBed::Find(const std::string& program) const {
  std::vector<lab::ProcessId> found;
  for (const lab::ProcessId& id : lab::ProcessesIn(unit().netns))
    if (Command(id.pid) == program.substr(0, 15)) found.push_back(id);
  std::sort(found.begin(), found.end(), [](const lab::ProcessId& a, const lab::ProcessId& b) {
    return std::tie(a.start, a.pid) < std::tie(b.start, b.pid);
  });
  return found;
}

std::vector<lab::ProcessId> ReactionBed::ServerProcesses() const {
  return Find(spec_.server == lab::Workload::kKnot ? "knotd" : "nginx");
}

std::vector<lab::ProcessId> ReactionBed::AgentProcesses() const { return Find("spillway-agent"); }

Result<void> ReactionBed::StartAgain(const lab::ProcessPlan& process) {
  lab::StartOptions start;
  start.argv = process.argv;
  start.netns = process.netns;
  start.cgroup_procs = testbed_->common_group();
  start.stdout_file = start.stderr_file = fmt::format("{}/{}.again.log", plan().folder, process.label);
  const auto id = lab::Start(start);
  if (!id) return tl::make_unexpected(id.error());
  for (const model::ServicePort& port : process.ready.ports)
    while (!lab::PortBound(id->pid, port))
      if (!lab::IsAlive(*id) || !base::SleepUnlessInterrupted(1ms))
        return Fail(ErrorCode::kSystem, process.label + " did not start again");
  return {};
}

std::string ReactionBed::ConfigurationFile() const {
  return fmt::format("{}/{}.conf", plan().folder, unit().label);
}

const std::string& ReactionBed::Configuration() const { return plan().files.at(ConfigurationFile()); }

Result<std::string> ReactionBed::FailingConfiguration() const {
  std::string text = Configuration();
  if (spec_.server == lab::Workload::kKnot) {
    // Without its zone it refuses.
    const size_t zone = text.find("\nzone:\n");
    if (zone != std::string::npos) return text.substr(0, zone + 1);
  } else {
    constexpr std::string_view kServer = "  server {\n";
    const size_t server = text.find(kServer);
    if (server != std::string::npos) return text.insert(server + kServer.size(), "    return 503;\n");
  }
  return Fail(ErrorCode::kSystem, ConfigurationFile() + ": not as the testbed is known to write it");
}

Result<void> ReactionBed::Reconfigure(const std::string& text) {
  if (auto written = report::WriteFile(ConfigurationFile(), text); !written) return written;
  const auto processes = ServerProcesses();
  if (processes.empty()) return Fail(ErrorCode::kSystem, unit().label + " does not run");
  kill(processes.front().pid, SIGHUP);
  return {};
}

}  // namespace spillway::bench

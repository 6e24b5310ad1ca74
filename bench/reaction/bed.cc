// SPDX-License-Identifier: Apache-2.0
#include "bench/reaction/bed.h"

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <tuple>

#include "base/signals.h"
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
  service.ports = {{model::Protocol::kTcp, static_cast<uint16_t>(is_dns ? 53 : 80)}};
  if (is_dns) service.ports.push_back({model::Protocol::kUdp, 53});
  service.mode = SPW_MODE_DSR_L2;
  service.affinity = is_dns ? SPW_AFFINITY_NONE : SPW_AFFINITY_CONNECTION;
  service.unit_policy = SPW_UNIT_WRR;  // the others need agents
  if (bed.health != Health::kPassive) service.health = Check(bed.server);
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
  spec.agent.threshold = std::chrono::milliseconds(bed.threshold_ms);
  return spec;
}

}  // namespace

const char* Word(lab::Workload server) { return server == lab::Workload::kKnot ? "knot" : "nginx"; }

const char* Word(Health health) {
  switch (health) {
    case Health::kPassive:
      return "passive";
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
  std::unique_ptr<ReactionBed> bed(new ReactionBed(spec, std::move(*testbed)));
  if (spec.server == lab::Workload::kNginx)
    for (bed->aim_ = bed->plan().units.size(); bed->aim_-- > 0;)
      if (auto prepared = bed->PrepareToFail(); !prepared) return tl::make_unexpected(prepared.error());
  bed->aim_ = 0;
  return bed;
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
    return spec_.health == Health::kPassive ||
           (unit.at("ejected") == false && unit.at("health").is_object() &&
            unit.at("health").at("state") == "up");
  });
}

Result<void> ReactionBed::AwaitWell() {
  for (const Moment end = Now() + kLimit; Now() < end;) {
    if (IsWell()) return {};
    if (!base::SleepUnlessInterrupted(kPoll)) return Fail(ErrorCode::kSystem, "interrupted");
  }
  return Fail(ErrorCode::kSystem,
              fmt::format("{} by {}: the switch did not show all units as healthy within {} s: {}",
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
  if (!testbed_->common_group().empty()) start.cgroup_procs = {testbed_->common_group()};
  start.stdout_file = start.stderr_file = fmt::format("{}/{}.again.log", plan().folder, process.label);
  const auto id = lab::Start(start);
  if (!id) return tl::make_unexpected(id.error());
  for (const model::ServicePort& port : process.ready.ports)
    while (!lab::PortBound(id->pid, port))
      if (!lab::IsAlive(*id) || !base::SleepUnlessInterrupted(1ms))
        return Fail(ErrorCode::kSystem, process.label + " did not start again");
  return {};
}

std::string ReactionBed::FileOf(const char* what) const {
  return fmt::format("{}/{}.{}", plan().folder, unit().label, what);
}

Result<void> ReactionBed::Reconfigure(const std::string& text) {
  if (auto written = report::WriteFile(FileOf("conf"), text); !written) return written;
  const auto processes = ServerProcesses();
  if (processes.empty()) return Fail(ErrorCode::kSystem, unit().label + " does not run");
  kill(processes.front().pid, SIGHUP);
  return {};
}

Result<void> ReactionBed::PrepareToFail() {
  constexpr std::string_view kServer = "  server {\n";
  std::string text = plan().files.at(FileOf("conf"));
  const size_t server = text.find(kServer);
  if (server == text.npos) return Fail(ErrorCode::kSystem, FileOf("conf") + ": not as the testbed writes it");
  text.insert(server + kServer.size(), fmt::format("    if (-f {}) {{ return 503; }}\n", FileOf("fails")));
  std::vector<lab::ProcessId> workers = ServerProcesses();
  if (!workers.empty()) workers.erase(workers.begin());
  if (auto read = Reconfigure(text); !read) return read;
  // The old worker closes its connections when it ends.
  for (const Moment end = Now() + kLimit; Now() < end;) {
    if (std::none_of(workers.begin(), workers.end(), lab::IsAlive)) return {};
    if (!base::SleepUnlessInterrupted(kPoll)) return Fail(ErrorCode::kSystem, "interrupted");
  }
  return Fail(ErrorCode::kSystem, unit().label + ": its old worker is still running");
}

Result<void> ReactionBed::AnswerErrors(bool errors) {
  if (spec_.server != lab::Workload::kKnot) {
    if (errors) return report::WriteFile(FileOf("fails"), "");
    unlink(FileOf("fails").c_str());
    return {};
  }
  std::string text = plan().files.at(FileOf("conf"));
  const size_t zone = text.find("\nzone:\n");  // without which it refuses
  if (zone == text.npos) return Fail(ErrorCode::kSystem, FileOf("conf") + ": not as the testbed writes it");
  if (errors) text.resize(zone + 1);
  return Reconfigure(text);
}

}  // namespace spillway::bench

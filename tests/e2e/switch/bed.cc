// SPDX-License-Identifier: Apache-2.0
#include "bed.h"

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "api/client.h"
#include "base/paths.h"
#include "cases.h"
#include "lab/testbed/netns.h"
#include "model/yaml.h"

namespace spillway::e2e {

using nlohmann::json;

std::string ReadFile(const std::string& path) {
  std::ifstream in(path);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

lab::TestbedSpec TwoModes(const std::string& name, int family, const std::vector<model::ServicePort>& ports) {
  lab::TestbedSpec spec;
  // The process id keeps runs side by side apart.
  spec.name = fmt::format("{}{}-{}", name, family, getpid());
  spec.family = family;
  spec.agent.run = false;
  for (const auto& [service_name, mode] : {std::pair{"nat", SPW_MODE_NAT}, {"dsr", SPW_MODE_DSR_L2}}) {
    lab::ServiceSpec service;
    service.name = service_name;
    service.ports = ports;
    service.mode = mode;
    service.unit_policy = SPW_UNIT_ECMP;
    spec.services.push_back(service);
  }
  return spec;
}

lab::ServerSpec ServerOf(const std::string& name,
                         const std::vector<std::pair<std::string, spw_unit_kind>>& units,
                         lab::Workload runs) {
  lab::ServerSpec server;
  server.name = name;
  for (const auto& [unit_name, kind] : units) {
    lab::UnitSpec unit;
    unit.name = unit_name;
    unit.kind = kind;
    unit.runs = runs;
    server.units.push_back(unit);
  }
  return server;
}

Result<std::unique_ptr<Bed>> Bed::Up(const lab::TestbedSpec& spec) {
  auto testbed = lab::Testbed::Up(spec, {});
  if (!testbed) return tl::make_unexpected(testbed.error());
  std::unique_ptr<Bed> bed(new Bed(std::move(*testbed)));
  // The testbed's own record of it is its own.
  const json status = bed->Show("status");
  if (status.is_null()) return Fail(ErrorCode::kSystem, "spillwayd does not answer: " + bed->DaemonLog());
  bed->daemon_ = lab::Identify(status.at("pid").get<pid_t>());
  // Traffic is only forwarded once the neighbours are known.
  if (!Eventually([&] { return bed->Show("status").at("units").at("unresolved") == 0; }))
    return Fail(ErrorCode::kSystem, "units without a next hop: " + bed->Show("units").dump());
  return bed;
}

Bed* SharedBeds::Get(const lab::TestbedSpec& spec) {
  std::unique_ptr<Bed>& bed = beds_[spec.name];
  if (bed) return bed.get();
  auto up = Bed::Up(spec);
  if (!up) {
    error_ = up.error().message;
    return nullptr;
  }
  bed = std::move(*up);
  return bed.get();
}

void SharedBeds::Drop(const Bed* bed) {
  std::erase_if(beds_, [bed](const auto& named) { return named.second.get() == bed; });
}

std::string Bed::vip(const std::string& service) const {
  for (const model::Service& s : config().services)
    if (s.name == service) return s.vip.ToString();
  return {};
}

std::string Bed::Url(const std::string& service, uint16_t port) const {
  const std::string address = vip(service);
  return fmt::format(fmt::runtime(address.find(':') == std::string::npos ? "http://{}:{}" : "http://[{}]:{}"),
                     address, port);
}

Result<void> Bed::StartEchoes(const std::vector<std::string>& more) {
  if (has_echoes_) return {};
  for (const lab::UnitPlan& unit : plan().units) {
    std::vector<std::string> argv{base::ProgramFolder() + "/spillway-unit", "--name", unit.label, "--service",
                                  "1us"};
    std::vector<std::string> addresses{unit.address.ToString()};
    addresses.insert(addresses.end(), plan().dsr_vips.begin(), plan().dsr_vips.end());
    for (const std::string& address : addresses) {
      const bool v6 = address.find(':') != std::string::npos;
      argv.insert(argv.end(),
                  {"--listen", fmt::format("{}{}{}:{}", v6 ? "[" : "", address, v6 ? "]" : "", kEchoPort)});
    }
    argv.insert(argv.end(), more.begin(), more.end());
    const auto id = StartIn(unit.netns, argv, unit.label + ".echo");
    if (!id) return tl::make_unexpected(id.error());
    if (!Eventually([&] {
          return lab::PortBound(id->pid, {model::Protocol::kTcp, kEchoPort}) &&
                 lab::PortBound(id->pid, {model::Protocol::kUdp, kEchoPort});
        }))
      return Fail(ErrorCode::kSystem, "spillway-unit does not listen: " +
                                          ReadFile(fmt::format("{}/{}.echo.log", plan().folder, unit.label)));
  }
  has_echoes_ = true;
  return {};
}

Result<lab::ProcessId> Bed::StartIn(const std::string& netns, const std::vector<std::string>& argv,
                                    const std::string& log) {
  lab::StartOptions o;
  o.argv = argv;
  o.netns = netns;
  o.stdout_file = o.stderr_file = fmt::format("{}/{}.log", plan().folder, log);
  return lab::Start(o);
}

Ran Bed::Run(const std::vector<std::string>& argv, const std::string& netns) {
  lab::StartOptions o;
  o.argv = argv;
  o.netns = netns;
  o.stdout_file = fmt::format("{}/run{}.out", plan().folder, ++runs_);
  o.stderr_file = fmt::format("{}/run{}.err", plan().folder, runs_);
  const auto exit = lab::Start(o).and_then([](const lab::ProcessId& id) { return lab::Wait(id); });
  if (!exit) return {-1, "", exit.error().message};
  return {*exit, ReadFile(o.stdout_file), ReadFile(o.stderr_file)};
}

Ran Bed::Cli(std::vector<std::string> words) {
  words.insert(words.begin(), {base::ProgramFolder() + "/spillway", "--api", plan().api_socket});
  return Run(words);
}

Ran Bed::Apply(const model::Config& config) {
  const std::string path = plan().folder + "/applied.yaml";
  std::ofstream(path) << model::ToYaml(config);
  return Cli({"apply", path});
}

void Bed::WritePoolFile(const std::string& text) const { std::ofstream(plan().pool_file) << text; }

json Bed::Show(const std::string& what) {
  api::Client client(plan().api_socket);
  const auto body = api::Client::Accept(client.Get("/v1/" + what));
  return body ? json::parse(*body, nullptr, false) : json();
}

json Bed::Unit(const std::string& server, const std::string& unit) {
  for (const json& u : Show("units"))
    if (u.at("server") == server && u.at("unit") == unit) return u;
  return {};
}

uint64_t Bed::Counter(const std::string& name) {
  const json counters = Show("counters");
  return counters.is_object() ? counters.value(name, uint64_t{0}) : 0;
}

void Bed::Signal(int signal) const {
  if (lab::IsAlive(daemon_)) kill(daemon_.pid, signal);
}

int Bed::AwaitExit() {
  const auto exit = lab::Wait(daemon_);
  return exit ? *exit : -1;
}

Result<void> Bed::LaunchDaemon() {
  const auto id = StartIn(plan().daemon.netns, plan().daemon.argv, "spillwayd.again");
  if (!id) return tl::make_unexpected(id.error());
  daemon_ = *id;
  return {};
}

Result<void> Bed::StartDaemon() {
  if (auto launched = LaunchDaemon(); !launched) return launched;
  // An emulated guest on a busy machine takes its time to verify the programs.
  const std::chrono::minutes limit(3);
  if (!Eventually([&] { return ApiAnswers() || !lab::IsAlive(daemon_); }, limit) || !lab::IsAlive(daemon_))
    return Fail(ErrorCode::kSystem, "spillwayd did not start again: " + DaemonLog());
  return {};
}

std::string Bed::DaemonLog() const {
  return ReadFile(plan().folder + "/spillwayd.log") + ReadFile(plan().folder + "/spillwayd.again.log");
}

}  // namespace spillway::e2e

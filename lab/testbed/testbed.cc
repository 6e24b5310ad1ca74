// SPDX-License-Identifier: Apache-2.0
#include "testbed.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "api/client.h"
#include "base/fd.h"
#include "base/file.h"
#include "base/paths.h"
#include "base/signals.h"
#include "base/system_error.h"
#include "cgroup.h"
#include "netns.h"
#include "report/file.h"

namespace spillway::lab {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;

constexpr milliseconds kPatience{3000};  // for a part to end by itself before it is killed

bool SocketAnswers(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) return false;
  path.copy(address.sun_path, sizeof(address.sun_path) - 1);
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const bool good = connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
  close(fd);
  return good;
}

bool Contains(const std::string& path, const std::string& words) {
  std::ifstream in(path);
  std::string line;
  while (std::getline(in, line))
    if (line.find(words) != std::string::npos) return true;
  return false;
}

std::string RandomHex(size_t bytes) {
  std::vector<unsigned char> raw(bytes);
  if (getrandom(raw.data(), raw.size(), 0) != static_cast<ssize_t>(bytes)) return {};
  std::string text;
  for (unsigned char b : raw) text += fmt::format("{:02x}", b);
  return text;
}

std::string LogFile(const Plan& plan, const std::string& label) {
  return fmt::format("{}/{}.log", plan.folder, label);
}

void StopProcesses(const State& state) {
  // The switch last: until then traffic may be under way. Then whatever the parts started themselves.
  std::vector<ProcessId> parts, switches;
  for (const RunningProcess& p : state.processes) (p.label == "spillwayd" ? switches : parts).push_back(p.id);
  Stop(parts, kPatience);
  Stop(switches, kPatience);
  for (const std::string& netns : state.namespaces) Stop(ProcessesIn(netns), milliseconds(200));
}

void Remove(const State& state) {
  StopProcesses(state);
  const std::string spillwayd = base::ProgramFolder() + "/spillwayd";
  if (!state.instance.empty() && access(spillwayd.c_str(), X_OK) == 0)
    (void)Run({spillwayd, "--instance", state.instance, "--run-dir", TestbedFolder(state.name), "--remove"})
        .has_value();
  for (const std::string& netns : state.namespaces) DeleteNetns(netns);
  if (!state.cgroups.empty()) Cgroups::Remove(state.cgroups);
  RemoveState(state.name);
}

// Held from the look at what stands until the namespaces are made: of two programs that want one name, or
// both clear leftovers, the second would else remove what the first has just made.
Result<base::Fd> LockTestbeds() {
  std::error_code ignored;
  fs::create_directories(kStateFolder, ignored);
  base::Fd lock(open(kStateFolder, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (lock && flock(lock.get(), LOCK_EX) == 0) return lock;
  return FailSystem(fmt::format("lock {}", kStateFolder));
}

}  // namespace

Testbed::Testbed(TestbedSpec spec, Plan plan, UpOptions options)
    : spec_(std::move(spec)), plan_(std::move(plan)), options_(options) {
  state_.name = spec_.name;
  state_.owner = Identify(getpid());
}

Testbed::~Testbed() {
  if (!released_) Remove(state_);
}

void Testbed::Release() {
  released_ = true;
  state_.owner = {};
  (void)SaveState(state_);  // one that still names this program is taken for a leftover: removed by the next
}

Result<void> MayMakeTestbeds() {
  if (geteuid() == 0) return {};
  return Fail(ErrorCode::kUnavailable, "a testbed makes network namespaces, which requires root (try sudo)");
}

Result<std::unique_ptr<Testbed>> Testbed::Up(const TestbedSpec& spec, const UpOptions& options) {
  if (auto may = MayMakeTestbeds(); !may) return tl::make_unexpected(may.error());
  auto lock = LockTestbeds();
  if (!lock) return tl::make_unexpected(lock.error());
  TakeDownLeftovers();
  if (LoadState(spec.name))
    return Fail(ErrorCode::kConflict,
                fmt::format("testbed {0} already exists; remove it with: spillway lab down {0}", spec.name));
  std::error_code ignored;
  fs::remove_all(TestbedFolder(spec.name), ignored);
  std::unique_ptr<Testbed> testbed(
      new Testbed(spec, MakePlan(spec, {TestbedFolder(spec.name), base::ProgramFolder()}), options));
  Result<void> made = testbed->MakeNamespaces();
  *lock = base::Fd();
  if (made) made = testbed->WriteFiles();
  if (made) made = Connect(testbed->plan_);
  if (made) made = testbed->StartAll();
  if (made && base::Interrupted()) made = Fail(ErrorCode::kSystem, "interrupted");
  if (!made) return tl::make_unexpected(made.error());
  return testbed;
}

Result<void> Testbed::MakeNamespaces() {
  std::vector<std::string> names = {plan_.switch_netns};
  for (const Link& link : plan_.links) names.push_back(link.netns);
  // Before any is called ours: a namespace of another testbed's or the user's would be removed with all its
  // processes when we end.
  for (const std::string& name : names)
    if (access(("/run/netns/" + name).c_str(), F_OK) == 0)
      return Fail(ErrorCode::kConflict,
                  fmt::format("testbed {}: network namespace {} already exists and is not this testbed's; "
                              "rename the testbed, or remove it with: ip netns del {}",
                              state_.name, name, name));
  state_.namespaces = std::move(names);
  if (auto saved = SaveState(state_); !saved) return saved;
  for (const std::string& name : state_.namespaces)
    if (auto added = AddNetns(name); !added) return added;
  return {};
}

Result<void> Testbed::WriteFiles() const {
  for (const auto& [path, text] : plan_.files)
    if (auto written = report::WriteFile(path, text); !written) return written;
  for (const std::string& path : plan_.key_files) {
    if (auto written = base::WriteFile(path, RandomHex(16) + "\n", {.mode = 0600}); !written) return written;
  }
  if (plan_.certificate) {
    const auto in_folder = [&](const char* name) { return fmt::format("{}/{}", plan_.folder, name); };
    if (auto made = Run({"openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                         "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj", "/CN=spillway-lab",
                         "-keyout", in_folder(kCertificateKey), "-out", in_folder(kCertificateFile)});
        !made)
      return made;
  }
  for (const UnitPlan& unit : plan_.units)  // nginx wants its folder of temporary files
    mkdir(fmt::format("{}/{}.nginx", plan_.folder, unit.label).c_str(), 0755);
  return {};
}

Result<std::vector<std::string>> Testbed::MakeGroup(const std::string& label,
                                                    const std::optional<CpuQuota>& quota) {
  auto cgroups = Cgroups::Open(spec_.name);
  if (!cgroups) return tl::make_unexpected(cgroups.error());
  state_.cgroups = cgroups->folder();
  if (auto saved = SaveState(state_); !saved) return tl::make_unexpected(saved.error());
  return cgroups->Make(label, quota).map([](std::vector<std::string> folders) {
    for (std::string& folder : folders) folder += "/cgroup.procs";
    return folders;
  });
}

std::chrono::nanoseconds Testbed::CpuTimeOf(const std::string& label) const {
  const std::string group = fmt::format("{}/{}/cgroup.procs", state_.cgroups, label);
  if (!state_.cgroups.empty() && fs::exists(group)) return CpuTime(group);
  const auto process = std::find_if(state_.processes.begin(), state_.processes.end(),
                                    [&](const RunningProcess& p) { return p.label == label; });
  return process == state_.processes.end() ? std::chrono::nanoseconds{} : CpuTime(process->id.pid);
}

std::vector<uint64_t> Testbed::PacketsToUnits() const {
  if (!options_.with_switch) return {};
  api::Client client(plan_.api_socket);
  const auto text = api::Client::Accept(client.Get("/v1/units"));
  const auto views = text ? nlohmann::json::parse(*text, nullptr, false) : nlohmann::json();
  if (!views.is_array()) return {};
  std::vector<uint64_t> packets;
  for (const UnitPlan& unit : plan_.units) {
    packets.push_back(0);
    for (const auto& view : views)
      if (view.value("server", "") == unit.server && view.value("unit", "") == unit.spec.name)
        packets.back() += view.value("packets", uint64_t{0});
  }
  return packets;
}

Result<void> Testbed::StartOne(const ProcessPlan& process) {
  StartOptions o;
  o.argv = process.argv;
  o.netns = process.netns;
  o.cpus = process.cpus;
  o.stdout_file = o.stderr_file = LogFile(plan_, process.label);
  o.tied = options_.tied;
  if (process.quota) {
    auto group = MakeGroup(process.group.empty() ? process.label : process.group, process.quota);
    if (!group) return tl::make_unexpected(group.error());
    o.cgroup_procs = std::move(*group);
  } else if (!common_group_.empty()) {
    o.cgroup_procs = {common_group_};
  }
  auto id = lab::Start(o);
  if (!id) return tl::make_unexpected(id.error());
  state_.processes.push_back({process.label, process.netns, *id});
  return SaveState(state_);
}

Result<void> Testbed::StartAll() {
  // Without a cpu controller the parts stay where they are; only a quota cannot do without.
  common_group_ = MakeGroup("common", std::nullopt).value_or(std::vector<std::string>{""}).front();
  std::vector<const ProcessPlan*> started;
  for (const UnitPlan& unit : plan_.units) {
    if (!unit.server_process) continue;
    if (auto good = StartOne(*unit.server_process); !good) return good;
    started.push_back(&*unit.server_process);
    if (!unit.neighbour) continue;
    if (auto good = StartOne(*unit.neighbour); !good) return good;
  }
  if (options_.with_switch) {
    state_.instance = "lab-" + spec_.name;
    if (auto good = StartOne(plan_.daemon); !good) return good;
    started.push_back(&plan_.daemon);
  }
  if (auto ready = AwaitReady(started); !ready) return ready;
  if (!options_.with_switch) return {};
  started.clear();
  for (const UnitPlan& unit : plan_.units) {
    if (!unit.agent) continue;
    if (auto good = StartOne(*unit.agent); !good) return good;
    started.push_back(&*unit.agent);
  }
  if (auto ready = AwaitReady(started); !ready || spec_.balancer == BalancerPlace::kSwitch) return ready;
  const ServiceSpec& service = spec_.services[0];
  return Balance(service.name, service.server_policy, service.unit_policy, spec_.balancer);
}

Result<void> Testbed::StopOne(const std::string& label) {
  for (const RunningProcess& p : state_.processes)
    if (p.label == label) Stop({p.id}, kPatience);
  std::erase_if(state_.processes, [&](const RunningProcess& p) { return p.label == label; });
  return SaveState(state_);
}

Result<void> Testbed::AwaitReady(const std::vector<const ProcessPlan*>& processes) const {
  const auto start = std::chrono::steady_clock::now();
  for (const ProcessPlan* process : processes) {
    auto running = std::find_if(state_.processes.begin(), state_.processes.end(),
                                [&](const RunningProcess& p) { return p.label == process->label; });
    auto ready = [&] {
      for (const model::ServicePort& port : process->ready.ports)
        if (!PortBound(running->id.pid, port)) return false;
      if (!process->ready.logged.empty() && !Contains(LogFile(plan_, process->label), process->ready.logged))
        return false;
      return process->ready.socket.empty() || SocketAnswers(process->ready.socket);
    };
    while (!ready()) {
      const bool dead = !IsAlive(running->id);
      if (dead || std::chrono::steady_clock::now() > start + process->ready.patience)
        return Fail(ErrorCode::kSystem,
                    fmt::format("{} {}: {}", process->label, dead ? "exited" : "was not ready in time",
                                LastLine(LogFile(plan_, process->label))));
      if (!base::SleepUnlessInterrupted(milliseconds(10))) return Fail(ErrorCode::kSystem, "interrupted");
    }
  }
  return {};
}

std::vector<std::string> Testbed::Dead() const {
  std::vector<std::string> dead;
  for (const RunningProcess& p : state_.processes)
    if (!IsAlive(p.id)) dead.push_back(p.label);
  return dead;
}

// To the running switch.
Result<void> Testbed::Tell(std::vector<std::string> words) const {
  words.insert(words.begin(), {base::ProgramFolder() + "/spillway", "--api", plan_.api_socket});
  return Run(words);
}

Result<bool> Testbed::UseAgents(const AgentSpec& agent) {
  if (agent == spec_.agent || !options_.with_switch) return false;
  spec_.agent = agent;
  const Plan plan = MakePlan(spec_, {plan_.folder, base::ProgramFolder()});
  std::vector<const ProcessPlan*> started;
  for (size_t i = 0; i < plan_.units.size(); i++) {
    const auto& old = plan_.units[i].agent;
    if (!old || !plan.units[i].agent) continue;
    const std::string file = AgentFile(plan_.folder, plan_.units[i].label);
    if (auto written = report::WriteFile(file, plan.files.at(file)); !written)
      return tl::make_unexpected(written.error());
    if (auto stopped = StopOne(old->label); !stopped) return tl::make_unexpected(stopped.error());
    if (auto good = StartOne(*old); !good) return tl::make_unexpected(good.error());
    started.push_back(&*old);
  }
  if (auto ready = AwaitReady(started); !ready) return tl::make_unexpected(ready.error());
  return true;
}

Result<void> Testbed::Balance(const std::string& service, spw_server_policy server_policy,
                              spw_unit_policy unit_policy, BalancerPlace place) {
  // A balancer that stands by would cost the NIC little, and this nothing.
  for (const NicBalancer& balancer : plan_.nic_balancers)
    if (auto stopped = StopOne(balancer.process.label); !stopped) return stopped;
  if (place == BalancerPlace::kSwitch) {
    if (!plan_.nic_balancers.empty())
      if (auto told = Tell({"apply", plan_.pool_file}); !told) return told;
    return Tell({"set", "service", service, "server_policy=" + model::ToString(server_policy),
                 "unit_policy=" + model::ToString(unit_policy)});
  }
  std::vector<ProcessPlan> processes;
  for (const NicBalancer& balancer : plan_.nic_balancers) {
    processes.push_back(balancer.process);
    processes.back().argv.insert(processes.back().argv.end(),
                                 {"--unit-policy", model::ToString(unit_policy)});
  }
  std::vector<const ProcessPlan*> started;
  for (const ProcessPlan& process : processes) {
    if (auto good = StartOne(process); !good) return good;
    started.push_back(&process);
  }
  if (auto ready = AwaitReady(started); !ready) return ready;
  return Tell({"apply", plan_.nic_pool_file});
}

bool TakeDown(const std::string& name) {
  auto state = LoadState(name);
  if (!state) return false;
  Remove(*state);
  return true;
}

std::vector<std::string> TakeDownLeftovers() {
  std::vector<std::string> names;
  for (const std::string& name : StateNames()) {
    auto state = LoadState(name);
    if (!state || !IsLeftover(*state)) continue;
    Remove(*state);
    names.push_back(name);
  }
  return names;
}

}  // namespace spillway::lab

// SPDX-License-Identifier: Apache-2.0
#include "lab/gpus/gpu_bed.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/file.h"
#include "base/signals.h"
#include "base/system_error.h"

namespace spillway::lab {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using namespace std::chrono_literals;

// A product that keeps a quarter of such a GPU busy for 4 ms.
constexpr double kGflopPerS = 2;
constexpr int kWidth = 100;
constexpr auto kUpWithin = 20s;
constexpr auto kEndWithin = 30s;  // an agent waits 15 s for its executors

// Of their own network: nobody else has these ports.
constexpr int kFramesPort = 7400, kControllerPort = 7401;

std::string NodeFile(const std::string& folder, const std::string& controller, int host, int gpus) {
  std::string text =
      fmt::format("name: host{1}\n{2}\ngateway: {0}/executors.sock\nstate: {0}/host{1}\ngpus:\n", folder,
                  host, controller);
  for (int gpu = 0; gpu < gpus; ++gpu)
    text += fmt::format("  - {{name: gpu{}, gflop_per_s: {}}}\n", gpu, kGflopPerS);
  return text;
}

bool IsHeld(const std::string& lock) {
  const base::Fd file(open(lock.c_str(), O_RDWR | O_CLOEXEC));
  return file && flock(file.get(), LOCK_SH | LOCK_NB) != 0;
}

}  // namespace

GpuBed::GpuBed(std::string folder, base::Fd lock, const HostNetwork& network)
    : folder_(std::move(folder)),
      lock_(std::move(lock)),
      network_(network),
      client_(api::Service{
          .address = folder_ + "/control.sock", .program = "spillway-gateway", .hint = "it exited"}) {}

Result<std::unique_ptr<GpuBed>> GpuBed::Up(const std::string& folder, const std::string& programs,
                                           const GpuJobs& jobs, const std::string& controller,
                                           const HostNetwork& network) {
  std::error_code failed;
  fs::create_directory(folder, failed);
  fs::permissions(folder, fs::perms::owner_all, failed);
  if (failed) return Fail(ErrorCode::kSystem, fmt::format("{}: {}", folder, failed.message()));
  base::Fd lock(open((folder + "/lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!lock) return FailSystem("open " + folder + "/lock");
  if (flock(lock.get(), LOCK_EX | LOCK_NB) != 0)
    return Fail(ErrorCode::kConflict, folder + ": another run has it");
  std::unique_ptr<GpuBed> bed(new GpuBed(folder, std::move(lock), network));
  const auto started = bed->Start(programs, jobs, controller);
  if (!started) return tl::make_unexpected(started.error());
  return bed;
}

GpuBed::~GpuBed() {
  EndNodes(std::exchange(nodes_, {}));
  if (gateway_.pid != 0) Stop({gateway_}, 15s);
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder_, ignored))
    if (entry.path().filename() != "lock") fs::remove_all(entry.path(), ignored);
}

// They end their executors.
void GpuBed::EndNodes(std::vector<ProcessId> nodes) {
  if (!nodes.empty()) Stop(nodes, kEndWithin);
}

Result<void> GpuBed::Start(const std::string& programs, const GpuJobs& jobs, const std::string& controller) {
  const auto begin = [&](const std::string& program, const std::string& name, const std::string& netns = "") {
    StartOptions options;
    options.netns = netns;
    options.argv = {programs + "/" + program, "-c", folder_ + "/" + name + ".yaml"};
    options.stderr_file = folder_ + "/" + name + ".log";
    return lab::Start(options);
  };
  const auto write = [&](const std::string& name, const std::string& text) {
    return base::WriteFile(folder_ + "/" + name + ".yaml", text, {.mode = 0600, .is_durable = false});
  };
  // Executors that a killed run left are its agents' successors' to end.
  std::vector<ProcessId> left;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder_, ignored)) {
    const std::string name = entry.path().filename();
    if (!entry.is_directory(ignored) || !fs::exists(folder_ + "/" + name + ".yaml", ignored)) continue;
    // It may have been of a network that is gone: now it only ends what it has, and needs none.
    const std::string here = fmt::format("controller: {}/control.sock", folder_);
    if (!name.starts_with("host") ||
        !write(name, NodeFile(folder_, here, std::atoi(name.c_str() + 4), jobs.gpus)))
      continue;
    const auto agent = begin("spillway-node", name);
    if (!agent) continue;
    left.push_back(*agent);
    // It has what is there once it has its lock, and ends then as it should.
    while (IsAlive(*agent) && !IsHeld(folder_ + "/" + name + "/lock"))
      if (!base::SleepUnlessInterrupted(5ms)) return Fail(ErrorCode::kSystem, "interrupted");
  }
  EndNodes(left);
  fs::remove(folder_ + "/fleet.json", ignored);
  std::string frames = fmt::format("unix:{}/frames.sock", folder_), listen;
  std::string controller_of_nodes = fmt::format("controller: {}/control.sock", folder_);
  if (network_.separate()) {
    const std::string nic = network_.AddressText(HostNetwork::Place::kNic), token = folder_ + "/token";
    if (const auto written = base::WriteFile(token, "of-the-testbed\n", {.mode = 0600, .is_durable = false});
        !written)
      return written;
    frames = fmt::format("{}:{}", nic, kFramesPort);
    listen = fmt::format("  listen: {}:{}\n  token_file: {}\n", nic, kControllerPort, token);
    controller_of_nodes =
        fmt::format("controller: tcp:{}:{}\ncontroller_token_file: {}", nic, kControllerPort, token);
  }
  const auto gateway_file = write(
      "gateway", fmt::format("frames: [\"{1}\"]\nexecutors: {0}/executors.sock\nisolation: "
                             "none\ncontroller:\n  socket: {0}/control.sock\n  state: {0}/fleet.json\n{2}{3}",
                             folder_, frames, listen, controller));
  if (!gateway_file) return gateway_file;
  auto gateway = begin("spillway-gateway", "gateway", network_.FileOf(HostNetwork::Place::kNic));
  if (!gateway) return tl::make_unexpected(gateway.error());
  gateway_ = *gateway;
  for (int host = 1; host <= jobs.hosts; ++host) {
    const std::string name = fmt::format("host{}", host);
    if (const auto written = write(name, NodeFile(folder_, controller_of_nodes, host, jobs.gpus)); !written)
      return written;
    auto node = begin("spillway-node", name, network_.FileOf(HostNetwork::Host(host)));
    if (!node) return tl::make_unexpected(node.error());
    nodes_.push_back(*node);
  }
  const auto end = std::chrono::steady_clock::now() + kUpWithin;
  for (;;) {
    const auto fleet = Fleet();
    if (fleet && fleet->at("hosts").size() == static_cast<size_t>(jobs.hosts)) return {};
    for (const auto& [process, name] : {std::pair(gateway_, "gateway"), std::pair(nodes_.front(), "host1")})
      if (!IsAlive(process))
        return Fail(ErrorCode::kSystem, LastLine(fmt::format("{}/{}.log", folder_, name)));
    if (std::chrono::steady_clock::now() > end)
      return Fail(ErrorCode::kSystem,
                  fmt::format("gateway and node agents were not up within {} s", kUpWithin / 1s));
    if (!base::SleepUnlessInterrupted(20ms)) return Fail(ErrorCode::kSystem, "interrupted");
  }
}

Result<gateway::Client> GpuBed::Connect() const {
  if (!network_.separate()) return gateway::Client::Connect("unix:" + folder_ + "/frames.sock", {});
  const std::string address =
      fmt::format("{}:{}", network_.AddressText(HostNetwork::Place::kNic), kFramesPort);
  std::optional<gateway::Client> client;
  const auto connected = network_.At(HostNetwork::Place::kClient, [&]() -> Result<void> {
    return gateway::Client::Connect(address, {}).map([&](gateway::Client made) {
      client.emplace(std::move(made));
    });
  });
  if (!connected) return tl::make_unexpected(connected.error());
  return std::move(*client);
}

Result<json> GpuBed::Fleet() {
  const auto text = api::Client::Accept(client_.Get("/v1/models"), client_.program());
  if (!text) return tl::make_unexpected(text.error());
  return json::parse(*text, nullptr, false);
}

Result<void> GpuBed::Add(const std::string& model, double share) {
  const std::string file = fmt::format(
      "model: {{name: {0}, kind: product, m: {1}, k: {1}, n: {1}}}\nshare: {2}\n", model, kWidth, share);
  const auto added = api::Client::Accept(client_.Post("/v1/models", file), client_.program());
  if (!added) return tl::make_unexpected(added.error());
  return {};
}

Result<void> GpuBed::Remove(const std::string& model) {
  const auto removed = api::Client::Accept(
      client_.Post("/v1/models/" + api::Client::Encode(model) + "/remove", ""), client_.program());
  if (!removed) return tl::make_unexpected(removed.error());
  return {};
}

}  // namespace spillway::lab

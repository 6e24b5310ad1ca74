// SPDX-License-Identifier: Apache-2.0
// spillway-gateway: starts what gateway.yaml asks for, and on SIGTERM drains. Exit code: 0 ok,
// 1 failed, 2 bad usage or input.
#include <fmt/format.h>
#include <signal.h>
#include <spdlog/spdlog.h>
#include <sys/socket.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "agent/config.h"
#include "api/http.h"
#include "api/listen.h"
#include "base/fd.h"
#include "base/near_word.h"
#include "base/print.h"
#include "command/option_checks.h"
#include "command/output.h"
#include "command/program.h"
#include "gateway/control/control.h"
#include "gateway/http/inference_front.h"
#include "gateway/report/gateway_report.h"
#include "gateway/server.h"
#include "model/secret_files.h"

namespace spillway::command {
namespace {

int Exit(const Error& error) { return Complain(error, "spillway-gateway"); }

// Of port 0 the kernel's choice is told.
std::string WithPort(const std::string& address, int port) {
  return address.ends_with(":0") ? fmt::format("{}, port {}", address, port) : address;
}

struct Sockets {
  gateway::Listeners listeners;
  std::vector<api::SocketFile> files;
};

// Folders are not made for what the file names: a mistyped path would look well, and nobody would come.
Result<void> CheckFolderOf(const std::string& path) {
  const auto folder = std::filesystem::path(path).parent_path();
  std::error_code unknown;
  if (folder.empty() || std::filesystem::is_directory(folder, unknown)) return {};
  return Fail(ErrorCode::kBadInput, fmt::format("{}: directory {} does not exist", path, folder.string()));
}

Result<api::UnixListener> ListenUnix(const std::string& path, int type,
                                     std::optional<uint32_t> group = std::nullopt) {
  if (const auto there = CheckFolderOf(path); !there) return tl::make_unexpected(there.error());
  return api::ListenUnix(path, type, group);
}

Result<Sockets> Listen(const gateway::GatewayConfig& config) {
  Sockets sockets;
  const auto at = [&](const std::string& key, const Error& error) {
    return tl::make_unexpected(yaml::At(config.places, key, error));
  };
  for (size_t i = 0; i < config.frames.size(); i++) {
    const std::string& address = config.frames[i];
    const std::string key = fmt::format("frames[#{}]", i + 1);
    if (address.starts_with("unix:")) {
      auto unix_socket = ListenUnix(address.substr(5), SOCK_STREAM);
      if (!unix_socket) return at(key, unix_socket.error());
      sockets.listeners.frames.push_back({base::Fd(unix_socket->fd), true});
      sockets.files.push_back(std::move(unix_socket->file));
      continue;
    }
    auto tcp = api::ListenTcp(address);
    if (!tcp) return at(key, tcp.error());
    spdlog::info("frames on {}", WithPort(address, api::PortOf(*tcp)));
    sockets.listeners.frames.push_back({base::Fd(*tcp), false});
  }
  if (!config.executors.empty()) {
    auto executors = ListenUnix(config.executors, SOCK_SEQPACKET, config.executor_trust.group);
    if (!executors) return at("executors", executors.error());
    sockets.listeners.executors = base::Fd(executors->fd);
    sockets.files.push_back(std::move(executors->file));
  }
  if (!config.rdma.clients.empty()) {
    auto windows = gateway::WindowListener::Listen(config.rdma.clients);
    if (!windows) return at("rdma.clients", windows.error());
    spdlog::info("clients' windows over RDMA on {}",
                 WithPort(config.rdma.clients, (*windows)->address().port()));
    sockets.listeners.windows = std::move(*windows);
  }
  if (config.rdma.listen.empty()) return sockets;
  const auto tcp = api::ListenTcp(config.rdma.listen);
  if (!tcp) return at("rdma.listen", tcp.error());
  const int port = api::PortOf(*tcp);
  auto rdma = gateway::RdmaListener::Listen(base::Fd(*tcp), config.rdma.token, config.rdma.memory);
  if (!rdma) return at("rdma.listen", rdma.error());
  spdlog::info("executors over RDMA on {}", WithPort(config.rdma.listen, port));
  sockets.listeners.rdma = std::move(*rdma);
  return sockets;
}

Result<std::unique_ptr<api::HttpServer>> StartHttp(const char* what, const std::string& address,
                                                   api::AsyncHandler handler, const api::HttpLimits& limits) {
  const auto fd = api::ListenTcp(address);
  if (!fd) return tl::make_unexpected(fd.error());
  const int port = api::PortOf(*fd);
  auto started = api::HttpServer::StartAsync(*fd, std::move(handler), limits);
  if (started) spdlog::info("{} on {}", what, WithPort(address, port));
  return started;
}

// Operators and node agents.
struct ControlDoors {
  std::unique_ptr<gateway::Control> control;
  std::unique_ptr<api::HttpServer> here, remote;
  api::SocketFile file;
};

// Models may be of tenants who send no requests: a quota of a tenant whom `tenants` does not list is no
// mistake, unless it looks like one.
void WarnOfMistypedQuotas(const gateway::GatewayConfig& config) {
  std::vector<std::string_view> tenants;
  for (const auto& tenant : config.broker.tenants) tenants.push_back(tenant.name);
  for (const auto& [name, gpus] : config.controller->options.gpu_quotas) {
    const std::string_view near = base::NearWord(name, tenants);
    if (near.empty() || std::count(tenants.begin(), tenants.end(), name) > 0) continue;
    spdlog::warn("controller.quotas: tenant {} is none of `tenants` (did you mean {}?)", name, near);
  }
}

Result<ControlDoors> OpenControl(const gateway::ControllerConfig& config, gateway::Server& server) {
  ControlDoors doors;
  const auto at = [&](const std::string& key, const Error& error) {
    return tl::make_unexpected(yaml::At(config.places, key, error));
  };
  auto socket = ListenUnix(config.socket, SOCK_STREAM);
  if (!socket) return at("controller.socket", socket.error());
  base::Fd listener(socket->fd);
  doors.file = std::move(socket->file);
  if (const auto there = CheckFolderOf(config.state); !there) return at("controller.state", there.error());
  auto control = gateway::Control::Open(config, server);
  if (!control) return at("controller.state", control.error());
  doors.control = std::move(*control);
  auto here = api::HttpServer::StartAsync(listener.Release(), doors.control->Front(),
                                          gateway::Control::LocalLimits());
  if (!here) return at("controller.socket", here.error());
  doors.here = std::move(*here);
  if (config.listen.empty()) return doors;
  auto remote = StartHttp("controller", config.listen, doors.control->Front(), doors.control->RemoteLimits());
  if (!remote) return at("controller.listen", remote.error());
  doors.remote = std::move(*remote);
  return doors;
}

int Serve(gateway::GatewayConfig config, const std::optional<agent::AgentConfig>& report) {
  const sigset_t signals = HoldSignals();
  // A session with a window holds five; HTTP has as many connections again, and as many windows that ended,
  // of four each, may not be free yet.
  const uint64_t descriptors = base::RaiseDescriptorLimit(), wanted = uint64_t{config.connections} * 10 + 64;
  if (descriptors < wanted)
    spdlog::warn(
        "{} descriptors are allowed and limits.connections {} may take {}: raise the limit (ulimit -n), or "
        "clients may find no room below limits.connections",
        descriptors, config.connections, wanted);
  auto sockets = Listen(config);
  if (!sockets) return Exit(sockets.error());
  const std::string http_address = config.http, health_address = config.health;
  const yaml::Places places = config.places;
  auto server = gateway::Server::Create(std::move(config), std::move(sockets->listeners));
  if (!server) return Exit(server.error());
  ControlDoors doors;
  if (const auto& controller = (*server)->config().controller) {
    WarnOfMistypedQuotas((*server)->config());
    auto opened = OpenControl(*controller, **server);
    if (!opened) return Exit(opened.error());
    doors = std::move(*opened);
  }
  gateway::TextWorkers text;
  std::unique_ptr<api::HttpServer> http, health;
  if (!http_address.empty()) {
    auto started = StartHttp("http", http_address, gateway::InferenceFront(**server, text),
                             gateway::InferenceLimits(**server));
    if (!started) return Exit(yaml::At(places, "http", started.error()));
    http = std::move(*started);
  }
  if (!health_address.empty()) {
    auto started =
        StartHttp("health", health_address, gateway::HealthFront(**server), gateway::HealthLimits());
    if (!started) return Exit(yaml::At(places, "health", started.error()));
    health = std::move(*started);
  }
  // The first signal drains, a second one ends it at once.
  std::thread waiter([&] {
    int caught = 0;
    sigwait(&signals, &caught);
    spdlog::info("received {}, shutting down once what is in hand is done",
                 caught == SIGTERM ? "SIGTERM" : "SIGINT");
    (*server)->Drain();
    sigwait(&signals, &caught);
    (*server)->Stop();
  });
  std::optional<gateway::GatewayReport> reports;
  if (report) reports.emplace(**server, *report);
  spdlog::info("ready");
  (*server)->Run();
  pthread_kill(waiter.native_handle(), SIGTERM);  // it need not wait any more
  waiter.join();
  reports.reset();
  http.reset();
  health.reset();
  return 0;
}

int Main(int argc, char** argv) {
  CLI::App app("Takes inference requests and delivers them into GPU slices' memory.", "spillway-gateway");
  std::string config_file, report_file;
  bool check = false;
  app.add_option("-c,--config", config_file, "gateway.yaml, see docs/gateway.md")
      ->required()
      ->type_name("FILE");
  app.add_option(
         "--report", report_file,
         "Report the slices' load to switches; FILE: an agent's file with meter kind cpu (docs/agent.md)")
      ->type_name("FILE")
      ->check(NonEmpty());
  app.add_flag("--check", check, "Check the configuration file, not the machine, and exit");
  if (const auto ended = ParseCommandLine(app, argc, argv)) return *ended;
  LogToStderr("spillway-gateway");
  auto config = gateway::LoadGatewayConfig(config_file);
  if (!config) return Exit(config.error());
  std::optional<agent::AgentConfig> report;
  if (!report_file.empty()) {
    auto read = agent::LoadAgentConfig(report_file, agent::MeteredBy::kProgram);
    if (!read) return Exit(read.error());
    report = std::move(*read);
  }
  if (check) {
    base::Print("{}: ok\n", config_file);
    return 0;
  }
  if (report)
    for (const std::string& warning : model::KeyFileWarnings(report->key_file, report->key))
      spdlog::warn("{}", warning);
  return Serve(std::move(*config), report);
}

}  // namespace
}  // namespace spillway::command

int main(int argc, char** argv) {
  return spillway::command::EndOutput(spillway::command::Main(argc, argv), "spillway-gateway");
}

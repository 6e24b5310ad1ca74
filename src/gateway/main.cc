// SPDX-License-Identifier: Apache-2.0
// spillway-gateway: takes inference requests and delivers them into GPU slices' memory. Exit code: 0 ok,
// 1 failed, 2 bad usage or input.
#include <fmt/format.h>
#include <signal.h>
#include <spdlog/spdlog.h>
#include <sys/socket.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <optional>
#include <thread>

#include "agent/config.h"
#include "api/http.h"
#include "api/listen.h"
#include "base/fd.h"
#include "base/print.h"
#include "command/option_checks.h"
#include "command/output.h"
#include "command/program.h"
#include "gateway/control/control.h"
#include "gateway/http/gateway_report.h"
#include "gateway/http/inference_front.h"
#include "gateway/server.h"
#include "model/key_file.h"

namespace spillway::command {
namespace {

int Exit(const Error& error) { return Complain(error, "spillway-gateway"); }

struct Sockets {
  gateway::Listeners listeners;
  std::vector<api::SocketFile> files;
};

// A socket's folder is not made for it: a mistyped path would look well, and nobody would come.
Result<api::UnixListener> ListenUnix(const std::string& path, int type,
                                     std::optional<uint32_t> group = std::nullopt) {
  const auto folder = std::filesystem::path(path).parent_path();
  std::error_code unknown;
  if (!folder.empty() && !std::filesystem::is_directory(folder, unknown))
    return Fail(ErrorCode::kBadInput, fmt::format("{}: directory {} does not exist", path, folder.string()));
  return api::ListenUnix(path, type, group);
}

Result<Sockets> Listen(const gateway::GatewayConfig& config) {
  Sockets sockets;
  for (const std::string& address : config.frames) {
    if (address.starts_with("unix:")) {
      auto unix_socket = ListenUnix(address.substr(5), SOCK_STREAM);
      if (!unix_socket) return tl::make_unexpected(unix_socket.error());
      sockets.listeners.frames.push_back({base::Fd(unix_socket->fd), true});
      sockets.files.push_back(std::move(unix_socket->file));
      continue;
    }
    auto tcp = api::ListenTcp(address);
    if (!tcp) return tl::make_unexpected(tcp.error());
    spdlog::info("frames on {}, port {}", address, api::PortOf(*tcp));
    sockets.listeners.frames.push_back({base::Fd(*tcp), false});
  }
  if (!config.executors.empty()) {
    auto executors = ListenUnix(config.executors, SOCK_SEQPACKET, config.executor_trust.group);
    if (!executors) return tl::make_unexpected(executors.error());
    sockets.listeners.executors = base::Fd(executors->fd);
    sockets.files.push_back(std::move(executors->file));
  }
  if (!config.rdma.clients.empty()) {
    auto windows = gateway::WindowListener::Listen(config.rdma.clients);
    if (!windows)
      return Fail(windows.error().code,
                  fmt::format("rdma.clients {}: {}", config.rdma.clients, windows.error().message));
    spdlog::info("clients' windows over RDMA on {}, port {}", config.rdma.clients,
                 (*windows)->address().port());
    sockets.listeners.windows = std::move(*windows);
  }
  if (config.rdma.listen.empty()) return sockets;
  const auto tcp = api::ListenTcp(config.rdma.listen);
  if (!tcp) return tl::make_unexpected(tcp.error());
  const int port = api::PortOf(*tcp);
  auto rdma = gateway::RdmaListener::Listen(base::Fd(*tcp), config.rdma.token, config.rdma.memory);
  if (!rdma)
    return Fail(rdma.error().code,
                fmt::format("rdma.listen {}: {}", config.rdma.listen, rdma.error().message));
  spdlog::info("executors over RDMA on {}, port {}", config.rdma.listen, port);
  sockets.listeners.rdma = std::move(*rdma);
  return sockets;
}

// What the file's reader does not know: how addresses look, and that one socket is one thing.
Result<void> CheckAddresses(const std::string& file, const gateway::GatewayConfig& config) {
  const auto bad = [&](const std::string& key, const std::string& text) {
    return Fail(ErrorCode::kBadInput, fmt::format("{}: {}: {}", file, key, text));
  };
  if (!config.http.empty())
    if (const auto good = api::CheckEndpoint(config.http); !good) return bad("http", good.error().message);
  if (!config.health.empty())
    if (const auto good = api::CheckEndpoint(config.health); !good)
      return bad("health", good.error().message);
  if (!config.rdma.listen.empty())
    if (const auto good = api::CheckEndpoint(config.rdma.listen); !good)
      return bad("rdma.listen", good.error().message);
  if (!config.rdma.clients.empty())
    if (const auto good = api::CheckEndpoint(config.rdma.clients); !good)
      return bad("rdma.clients", good.error().message);
  if (config.controller) {
    if (!config.controller->listen.empty())
      if (const auto good = api::CheckEndpoint(config.controller->listen); !good)
        return bad("controller.listen", good.error().message);
    if (config.controller->socket == config.executors)
      return bad("controller.socket", "expected another path than executors");
  }
  for (size_t i = 0; i < config.frames.size(); i++) {
    const std::string& address = config.frames[i];
    const std::string key = fmt::format("frames[#{}]", i + 1);
    if (address.starts_with("unix:")) {
      if (address.size() == 5) return bad(key, "expected unix:PATH, got no path");
      if (address.substr(5) == config.executors) return bad(key, "expected another path than executors");
    } else if (const auto good = api::CheckEndpoint(address); !good) {
      return bad(key, good.error().message + ", or unix:PATH");
    }
  }
  return {};
}

Result<std::unique_ptr<api::HttpServer>> StartHttp(const char* what, const std::string& address,
                                                   api::AsyncHandler handler, const api::HttpLimits& limits) {
  const auto fd = api::ListenTcp(address);
  if (!fd) return tl::make_unexpected(fd.error());
  const int port = api::PortOf(*fd);
  auto started = api::HttpServer::StartAsync(*fd, std::move(handler), limits);
  if (started) spdlog::info("{} on {}, port {}", what, address, port);
  return started;
}

// Operators and node agents.
struct ControlDoors {
  std::unique_ptr<gateway::Control> control;
  std::unique_ptr<api::HttpServer> here, remote;
  api::SocketFile file;
};

Result<ControlDoors> OpenControl(const gateway::ControllerConfig& config, gateway::Server& server) {
  ControlDoors doors;
  auto socket = ListenUnix(config.socket, SOCK_STREAM);
  if (!socket) return tl::make_unexpected(socket.error());
  base::Fd listener(socket->fd);
  doors.file = std::move(socket->file);
  auto control = gateway::Control::Open(config, server);
  if (!control) return tl::make_unexpected(control.error());
  doors.control = std::move(*control);
  auto here = api::HttpServer::StartAsync(listener.Release(), doors.control->Front(),
                                          gateway::Control::LocalLimits());
  if (!here) return tl::make_unexpected(here.error());
  doors.here = std::move(*here);
  if (config.listen.empty()) return doors;
  auto remote = StartHttp("controller", config.listen, doors.control->Front(), doors.control->RemoteLimits());
  if (!remote) return tl::make_unexpected(remote.error());
  doors.remote = std::move(*remote);
  return doors;
}

int Serve(gateway::GatewayConfig config, const std::optional<agent::AgentConfig>& report) {
  const sigset_t signals = HoldSignals();
  auto sockets = Listen(config);
  if (!sockets) return Exit(sockets.error());
  const std::string http_address = config.http, health_address = config.health;
  auto server = gateway::Server::Create(std::move(config), std::move(sockets->listeners));
  if (!server) return Exit(server.error());
  ControlDoors doors;
  if (const auto& controller = (*server)->config().controller) {
    auto opened = OpenControl(*controller, **server);
    if (!opened) return Exit(opened.error());
    doors = std::move(*opened);
  }
  std::unique_ptr<api::HttpServer> http, health;
  if (!http_address.empty()) {
    auto started =
        StartHttp("http", http_address, InferenceFront(**server), InferenceLimits((*server)->config()));
    if (!started) return Exit(started.error());
    http = std::move(*started);
  }
  if (!health_address.empty()) {
    auto started = StartHttp("health", health_address, HealthFront(**server), HealthLimits());
    if (!started) return Exit(started.error());
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
  std::optional<GatewayReport> reports;
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
  app.add_option("-c,--config", config_file, "Configuration (YAML)")->required()->type_name("FILE");
  app.add_option("--report", report_file,
                 "Report the slices' load to the switches: an agent's file of kind cpu, docs/agent.md")
      ->type_name("FILE")
      ->check(NonEmpty());
  app.add_flag("--check", check, "Check the configuration and exit");
  if (const auto ended = ParseCommandLine(app, argc, argv)) return *ended;
  LogToStderr("spillway-gateway");
  auto config = gateway::LoadGatewayConfig(config_file);
  if (!config) return Exit(config.error());
  if (const auto good = CheckAddresses(config_file, *config); !good) return Exit(good.error());
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
    if (const auto warning = model::SecretFileWarning(report->key_file)) spdlog::warn("{}", *warning);
  return Serve(std::move(*config), report);
}

}  // namespace
}  // namespace spillway::command

int main(int argc, char** argv) {
  return spillway::command::EndOutput(spillway::command::Main(argc, argv), "spillway-gateway");
}

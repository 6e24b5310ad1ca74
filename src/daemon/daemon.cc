// SPDX-License-Identifier: Apache-2.0
#include "daemon.h"

#include <fmt/format.h>
#include <signal.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>
#include <systemd/sd-daemon.h>
#include <time.h>
#include <unistd.h>

#include <fstream>
#include <optional>

#include "api/control.h"
#include "api/http.h"
#include "api/listen.h"
#include "api/routes.h"
#include "base/fd.h"
#include "base/print.h"
#include "base/version.h"
#include "command/exit_code.h"
#include "command/output.h"
#include "command/program.h"
#include "daemon/event_loop.h"
#include "model/parse.h"
#include "model/warnings.h"

namespace spillway::command {
namespace {

using namespace std::chrono_literals;

constexpr auto kTickPeriod = 1s;
// Whoever asks for metrics and does not read holds a page, 24 MB with 16,384 units, for 30 s.
constexpr unsigned kMetricsConnections = 16;
constexpr size_t kMaxApiBody = 16 << 20;  // the largest pool file takes about 5 MiB

int Failed(const Error& error) { return Complain(error, "spillwayd"); }

size_t CountUnits(const model::Config& config) {
  size_t units = 0;
  for (const model::Pool& pool : config.pools)
    for (const model::Server& server : pool.servers) units += server.units.size();
  return units;
}

switching::Options SwitchOptions(const DaemonOptions& options) {
  return {.instance = options.instance,
          .bpffs = options.bpffs,
          .run_dir = options.run_dir,
          .state_dir = options.state_dir};
}

void LogStart(const switching::Switch& sw, const DaemonOptions& options) {
  const model::Config& config = sw.config();
  spdlog::info("{}, instance {}: {}, {}; data plane {}", base::VersionLine("spillwayd"), options.instance,
               Counted(config.services.size(), "service"), Counted(CountUnits(config), "unit"),
               sw.adopted() ? "adopted, flows and counters go on" : "loaded");
  for (const switching::InterfaceView& interface : sw.Interfaces()) {
    if (interface.native)
      spdlog::info("{}: XDP in native mode", interface.name);
    else
      spdlog::warn("{}: XDP in generic mode, several times slower than native: {}", interface.name,
                   interface.why_generic.empty() ? "no reason known" : interface.why_generic);
  }
  for (const std::string& warning : sw.StartWarnings()) spdlog::warn("{}", warning);
  for (const std::string& warning : model::Warnings(config)) spdlog::warn("{}", warning);
}

// Names the option, or the file, that asked for what failed.
auto AskedBy(const std::string& where) {
  return [where](Error error) {
    error.message = fmt::format("{}: {}", where, error.message);
    return error;
  };
}

// Sockets on which nobody answers yet.
struct Listeners {
  base::Fd api, metrics;        // metrics: none where they are not wanted
  api::SocketFile socket_file;  // last, so that it goes first
};

// --run-dir, where it is by default, is made if it is missing; another folder that is missing is a mistyped
// one, where no client would look.
Result<void> FolderOfApi(const DaemonOptions& options) {
  namespace fs = std::filesystem;
  const fs::path folder = fs::path(options.api).parent_path();
  std::error_code unknown;
  const bool is_run_dir = folder == (fs::path(options.run_dir) / "").lexically_normal().parent_path();
  if (is_run_dir || options.api == DefaultApi(options) || folder.empty() || fs::is_directory(folder, unknown))
    return {};
  return Fail(ErrorCode::kBadInput,
              fmt::format("--api {}: expected a socket in a folder that is there, got no folder {}",
                          options.api, folder.string()));
}

Result<Listeners> Listen(const DaemonOptions& options) {
  Listeners listeners;
  if (const auto there = FolderOfApi(options); !there) return tl::make_unexpected(there.error());
  auto api = api::ListenUnix(options.api).map_error(AskedBy("--api"));
  if (!api) return tl::make_unexpected(api.error());
  listeners.api.Reset(api->fd);
  listeners.socket_file = std::move(api->file);
  if (options.metrics.empty()) return listeners;
  const auto metrics = api::ListenTcp(options.metrics).map_error(AskedBy("--metrics"));
  if (!metrics) return tl::make_unexpected(metrics.error());
  listeners.metrics.Reset(*metrics);
  return listeners;
}

// The API's thread, and the metrics' where wanted.
struct Servers {
  std::unique_ptr<api::HttpServer> api, metrics;
  api::SocketFile socket_file;  // last, so that it goes first
};

Result<Servers> StartServers(api::Control& control, Listeners listeners) {
  Servers servers;
  servers.socket_file = std::move(listeners.socket_file);
  auto http = api::HttpServer::Start(
      listeners.api.Release(),
      [&control](const api::Request& request) { return api::Route(control, request); }, kMaxApiBody);
  if (!http) return tl::make_unexpected(http.error());
  servers.api = std::move(*http);
  if (!listeners.metrics) return servers;
  auto metrics = api::HttpServer::Start(
      listeners.metrics.Release(),
      [&control](const api::Request& request) { return api::RouteMetrics(control, request); },
      api::HttpServer::kMaxBody, kMetricsConnections);
  if (!metrics) return tl::make_unexpected(metrics.error());
  servers.metrics = std::move(*metrics);
  return servers;
}

void OnReload(api::Control& control) {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  sd_notifyf(0, "RELOADING=1\nMONOTONIC_USEC=%lld", now.tv_sec * 1000000LL + now.tv_nsec / 1000);
  const bool taken = control.Reload().has_value();  // logs either way
  sd_notifyf(0, "READY=1\nSTATUS=%s",
             taken ? "running" : "running; the last reload was refused, see the log");
}

// Everything between a running switch and the wish to end. `ready`: whether it got as far as serving.
Result<void> Serve(switching::Switch& sw, const DaemonOptions& options, Listeners listeners,
                   const base::Fd& signals, bool& ready) {
  api::Control control(
      sw, {.version = std::string(base::Version()),
           .instance = options.instance,
           .config_path = options.config,
           .last_good_path = fmt::format("{}/{}.last-good.yaml", options.run_dir, options.instance)});
  if (const auto started = control.StartChecks(); !started) return started;
  auto servers = StartServers(control, std::move(listeners));
  if (!servers) return tl::make_unexpected(servers.error());
  auto timer = OpenTimer(kTickPeriod);
  if (!timer) return tl::make_unexpected(timer.error());
  auto loop = EventLoop::Create();
  if (!loop) return tl::make_unexpected(loop.error());

  const bool watchdog = sd_watchdog_enabled(0, nullptr) > 0;
  const auto on_signal = [&] {
    const int signal = ReadSignal(signals);
    if (signal == SIGHUP) OnReload(control);
    if (signal == SIGTERM || signal == SIGINT) {
      spdlog::info("received {}, shutting down", signal == SIGTERM ? "SIGTERM" : "SIGINT");
      loop->Stop();
    }
  };
  const auto on_timer = [&] {
    ReadTimer(*timer);
    control.Tick();
    if (watchdog) sd_notify(0, "WATCHDOG=1");
  };
  auto watched =
      loop->Watch(signals.get(), on_signal).and_then([&] { return loop->Watch(timer->get(), on_timer); });
  if (watched && sw.netlink_fd() >= 0)  // a test's switch has none
    watched = loop->Watch(sw.netlink_fd(), [&control] { control.OnNetlink(); });
  if (!watched) return watched;

  ready = true;
  sd_notify(0, "READY=1\nSTATUS=running");
  spdlog::info("API on {}{}", options.api, options.metrics.empty() ? "" : ", metrics on " + options.metrics);
  const auto ran = loop->Run();
  sd_notify(0, "STOPPING=1");
  return ran;
}

// Pins are in the bpffs that is mounted here. `ip netns exec` has a /sys for its command alone: those who
// started that have another.
bool PinsOutliveUs(const std::string& bpffs) {
  struct stat here = {}, theirs = {};
  if (stat(bpffs.c_str(), &here) != 0) return true;
  for (pid_t ancestor = getppid(); ancestor > 0;) {
    const auto its_bpffs = fmt::format("/proc/{}/root{}", ancestor, bpffs);
    if (stat(its_bpffs.c_str(), &theirs) == 0 && theirs.st_dev != here.st_dev) return false;
    std::ifstream text(fmt::format("/proc/{}/stat", ancestor));
    std::string word;
    while (text >> word && !word.ends_with(")")) {
    }  // the name, which may hold blanks
    if (!(text >> word >> ancestor)) return true;
  }
  return true;
}

int Run(const DaemonOptions& options, const SwitchSource& source) {
  // First of all: a signal during the start waits for the loop, which then ends in order.
  const auto signals = OpenSignals({SIGHUP, SIGTERM, SIGINT});
  if (!signals) return Failed(signals.error());
  signal(SIGPIPE, SIG_IGN);
  signal(SIGCHLD, SIG_DFL);  // whoever started this may ignore it: the end of checks' commands would be lost

  const auto file = model::LoadPoolFile(options.config);
  if (!file) return Failed(file.error());
  // Before anything is attached. Of an instance that runs already the start says more.
  auto listeners = Listen(options);
  if (!listeners && listeners.error().code != ErrorCode::kConflict) return Failed(listeners.error());
  auto started = source.start(file->config, SwitchOptions(options));
  if (!started) {
    // Bad input that only the start can know: an interface that is not here, a server that cannot get its
    // code.
    const Error& error = started.error();
    const bool of_file = error.code == ErrorCode::kBadInput && !error.message.starts_with("--");
    return Failed(of_file ? file->At(error) : error);
  }
  const std::unique_ptr<switching::Switch> sw = std::move(*started);
  LogStart(*sw, options);
  if (options.keep && !PinsOutliveUs(options.bpffs))
    spdlog::warn(
        "--keep: {} is mounted for this command alone (ip netns exec does so), and the data plane ends with "
        "it; "
        "nsenter --net=/run/netns/<name> enters a network namespace only",
        options.bpffs);

  bool ready = false;
  int exit_code = kExitOk;
  const auto served = listeners ? Serve(*sw, options, std::move(*listeners), *signals, ready)
                                : Result<void>(tl::make_unexpected(listeners.error()));
  if (!served) exit_code = Failed(served.error());

  // A start that failed leaves things as it found them: an adopted data plane goes on.
  if (options.keep || (!ready && sw->adopted())) {
    if (PinsOutliveUs(options.bpffs))
      spdlog::info("the data plane stays in place and forwards");
    else
      spdlog::warn("the data plane ends with this mount namespace");
    return exit_code;
  }
  if (const auto removed = sw->Remove(); !removed) return Failed(removed.error());
  spdlog::info("the data plane is removed");
  return exit_code;
}

int Main(int argc, char** argv, const SwitchSource& source) {
  const auto parsed = ParseDaemonOptions(argc, argv);
  if (const int* code = std::get_if<int>(&parsed)) return *code;
  const auto& options = std::get<DaemonOptions>(parsed);
  if (options.check) {
    const auto config = model::LoadConfig(options.config);
    if (!config) return Failed(config.error());
    for (const std::string& warning : model::Warnings(*config))
      base::PrintError("spillwayd: {}: warning: {}\n", options.config, warning);
    base::Print("{}: ok, {}, {}\n", options.config, Counted(config->services.size(), "service"),
                Counted(CountUnits(*config), "unit"));
    return kExitOk;
  }
  LogToStderr("spillwayd", options.log_level);
  if (options.remove) {
    const auto removed = source.remove_leftovers(SwitchOptions(options));
    if (!removed) return Failed(removed.error());
    if (!*removed) spdlog::warn("nothing to remove: instance {} has left nothing behind", options.instance);
    return kExitOk;
  }
  return Run(options, source);
}

}  // namespace

int RunSpillwayd(int argc, char** argv, const SwitchSource& source) {
  base::HoldStandardStreams();
  return EndOutput(Main(argc, argv, source), "spillwayd");
}

}  // namespace spillway::command

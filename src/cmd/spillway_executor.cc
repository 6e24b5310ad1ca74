// SPDX-License-Identifier: Apache-2.0
// spillway-executor: the host's side of a gateway, and its benchmark, as `spillway bench gateway`. Exit code:
// 0 ok, 1 failed, 2 bad usage or input.
#include <fmt/format.h>
#include <signal.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <sys/signalfd.h>

#include <CLI/CLI.hpp>

#include "gateway/executor/executor.h"
#include "gateway/executor/executor_config.h"

namespace spillway::cmd {
namespace {

int Exit(const Error& error) {
  fmt::print(stderr, "spillway-executor: {}\n", error.message);
  return error.code == ErrorCode::kBadInput ? 2 : 1;
}

int Serve(const gateway::ExecutorConfig& config) {
  auto engine =
      config.cuda ? gateway::MakeCudaEngine(config.models) : gateway::MakeEmulatedEngine(config.models);
  if (!engine) return Exit(engine.error());
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  sigprocmask(SIG_BLOCK, &signals, nullptr);
  const gateway::Descriptor stop(signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK));
  gateway::Executor executor(config.options, **engine);
  const auto ran = executor.Run(stop.get());
  return ran ? 0 : Exit(ran.error());
}

int Main(int argc, char** argv) {
  CLI::App app("The host's side of a gateway: registers slices' memory, is rung, launches.",
               "spillway-executor");
  std::string config_file;
  bool check = false;
  app.add_option("-c,--config", config_file, "Configuration (YAML)")->required()->type_name("FILE");
  app.add_flag("--check", check, "Check the configuration and exit");
  app.set_version_flag("--version", "spillway-executor " SPILLWAY_VERSION);
  app.footer("Exit codes: 0 ok, 1 failed, 2 bad usage or input.");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);
    fmt::print(stderr, "spillway-executor: {}\n", error.what());
    return 2;
  }
  spdlog::set_default_logger(spdlog::stderr_logger_mt("spillway-executor"));
  spdlog::set_pattern("%Y-%m-%dT%H:%M:%S.%e %l %v");
  const auto config = gateway::LoadExecutorConfig(config_file);
  if (!config) return Exit(config.error());
  if (check) {
    fmt::print("{}: ok\n", config_file);
    return 0;
  }
  return Serve(*config);
}

}  // namespace
}  // namespace spillway::cmd

int main(int argc, char** argv) { return spillway::cmd::Main(argc, argv); }

// SPDX-License-Identifier: Apache-2.0
// spillway-executor: the host's side of a gateway, and its benchmark, as `spillway bench gateway`. Exit code:
// 0 ok, 1 failed, 2 bad usage or input.
#include <fmt/format.h>
#include <signal.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <sys/signalfd.h>

#include <CLI/CLI.hpp>

#include "bench/gateway/gateway_bench.h"
#include "cmd/typed_name.h"
#include "gateway/executor/executor.h"
#include "gateway/executor/executor_config.h"
#include "report/progress.h"

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

int Bench(const bench::GatewayBenchOptions& options, bool as_json) {
  spdlog::set_level(spdlog::level::err);
  report::Progress progress("bench gateway");
  const auto document = bench::RunGatewayBench(
      options, [&](double fraction, const std::string& message) { progress.Update(fraction, message); });
  if (!document) return Exit(document.error());
  progress.Finish("done");
  fmt::print("{}", as_json ? document->Dump() : bench::GatewayText(*document));
  return 0;
}

// `spillway bench gateway`; a program of its own for oneDNN's sake.
CLI::App* AddBenchVerb(CLI::App& app, bench::GatewayBenchOptions& options, bool& json) {
  CLI::App* verb = app.add_subcommand("bench", "The four designs, with an idle and a busy host");
  verb->add_flag("--json", json, "One JSON document to stdout instead of text");
  verb->add_option("--rounds", options.rounds, "Rounds over all rows")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  verb->add_option_function<int>(
          "--ms", [&options](int ms) { options.duration = std::chrono::milliseconds(ms); },
          "Length of one measurement in milliseconds (300)")
      ->check(CLI::Range(5, 100'000));
  verb->add_option_function<size_t>(
          "--bytes", [&options](size_t bytes) { options.bytes = bytes & ~size_t{3}; },
          "Bytes of a request's input (65536)")
      ->check(CLI::Range(size_t{64}, size_t{16} << 20));
  verb->add_option("--kernel-us", options.kernel_us, "Microseconds that a slice takes for it")
      ->check(CLI::Range(1.0, 1e6))
      ->capture_default_str();
  verb->add_flag("--quick", options.quick, "At most two rounds, a third of the time");
  return verb;
}

int Main(int argc, char** argv) {
  CLI::App app("The host's side of a gateway: registers slices' memory, is rung, launches.",
               "spillway-executor");
  std::string config_file;
  bool check = false;
  auto* config_option = app.add_option("-c,--config", config_file, "Configuration (YAML)")->type_name("FILE");
  app.add_flag("--check", check, "Check the configuration and exit");
  bench::GatewayBenchOptions bench_options;
  bool json = false;
  CLI::App* bench_verb = AddBenchVerb(app, bench_options, json);
  NameAsTyped(*bench_verb, TypedName(argc, argv, "spillway-executor bench"));
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
  if (bench_verb->parsed()) return Bench(bench_options, json);
  if (config_option->empty()) {
    fmt::print(stderr, "spillway-executor: expected --config FILE, or bench\n");
    return 2;
  }
  const auto config = gateway::LoadExecutorConfig(config_file);
  if (!config) return Exit(config.error());
  if (check) {
    if (config->cuda)
      if (const auto engine = gateway::MakeCudaEngine(config->models); !engine) return Exit(engine.error());
    fmt::print("{}: ok\n", config_file);
    return 0;
  }
  return Serve(*config);
}

}  // namespace
}  // namespace spillway::cmd

int main(int argc, char** argv) { return spillway::cmd::Main(argc, argv); }

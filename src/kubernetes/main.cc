// SPDX-License-Identifier: Apache-2.0
// spillway-kubernetes: the scheduler as an extender of kube-scheduler. Exit code: 0 ok, 1 failed, 2 bad usage
// or input.
#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <CLI/CLI.hpp>

#include "base/print.h"
#include "base/version.h"
#include "command/output.h"
#include "command/program.h"
#include "kubernetes/extender.h"

namespace spillway::command {
namespace {

constexpr const char* kProgram = "spillway-kubernetes";

int Main(int argc, char** argv) {
  CLI::App app("Places pods on GPUs and their slices, as an extender of kube-scheduler.", kProgram);
  std::string config_file;
  bool check = false;
  app.add_option("-c,--config", config_file, "extender.yaml, see docs/kubernetes.md")
      ->required()
      ->type_name("FILE");
  app.add_flag("--check", check, "Check the configuration file, not the machine, and exit");
  if (const auto ended = ParseCommandLine(app, argc, argv)) return *ended;
  LogToStderr(kProgram);
  const auto config = kubernetes::LoadExtenderConfig(config_file);
  if (!config) return Complain(config.error(), kProgram);
  if (check) {
    base::Print("{}: ok\n", config_file);
    return 0;
  }
  const sigset_t signals = HoldSignals();
  const auto extender = kubernetes::Extender::Start(*config).map_error([&](Error error) {
    error.message = fmt::format("{}: extender: {}", config_file, error.message);
    return error;
  });
  if (!extender) return Complain(extender.error(), kProgram);
  spdlog::info("{}: extender on {}, port {}", base::VersionLine(kProgram), config->listen,
               (*extender)->port());
  int caught = 0;
  sigwait(&signals, &caught);
  spdlog::info("received {}, shutting down", caught == SIGTERM ? "SIGTERM" : "SIGINT");
  return 0;
}

}  // namespace
}  // namespace spillway::command

int main(int argc, char** argv) {
  return spillway::command::EndOutput(spillway::command::Main(argc, argv), spillway::command::kProgram);
}

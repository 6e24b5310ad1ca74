// SPDX-License-Identifier: Apache-2.0
// spillway-node: a GPU host's node agent. Exit code: 0 ok, 1 failed, 2 bad usage or input.
#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <sys/signalfd.h>

#include <CLI/CLI.hpp>
#include <filesystem>

#include "base/fd.h"
#include "base/paths.h"
#include "base/print.h"
#include "command/output.h"
#include "command/program.h"
#include "node/host_program.h"
#include "node/node_agent.h"

namespace spillway::command {
namespace {

constexpr const char* kProgram = "spillway-node";

int Main(int argc, char** argv) {
  CLI::App app("Starts and stops executors on a GPU host at the controller's request.", kProgram);
  std::string config_file, executor = base::ProgramFolder() + "/spillway-executor";
  bool check = false;
  app.add_option("-c,--config", config_file, "node.yaml, see docs/models.md")->required()->type_name("FILE");
  app.add_option("--executor", executor, "The program spillway-executor; default: beside this one")
      ->type_name("FILE");
  app.add_flag("--check", check, "Check the configuration file, GPUs and programs, and exit");
  if (const auto ended = ParseCommandLine(app, argc, argv)) return *ended;
  LogToStderr(kProgram);
  auto config = node::LoadNodeConfig(config_file);
  if (!config) return Complain(config.error(), kProgram);
  std::error_code unknown;
  if (!std::filesystem::is_regular_file(executor, unknown))
    return Complain({ErrorCode::kBadInput, fmt::format("--executor {}: expected a program", executor)},
                    kProgram);
  const auto missing = node::TakeOutMissingPrograms(*config);
  for (const Error& one : missing) {
    if (check) (void)Complain(one, kProgram);
    if (!check) spdlog::warn("{}; not listed until the next start", one.message);
  }
  if (check && !missing.empty()) return 2;
  auto slices = node::SlicesOf(*config);
  if (!slices) return Complain(slices.error(), kProgram);
  if (check) {
    const auto lost = (*slices)->Lost();
    for (const auto& [gpu, why] : lost)
      (void)Complain(
          yaml::At(config->places, fmt::format("gpus[{}].device", gpu), {ErrorCode::kBadInput, why}),
          kProgram);
    if (!lost.empty()) return 2;
    base::Print("{}: ok\n", config_file);
    return 0;
  }
  const sigset_t signals = HoldSignals();
  const base::Fd stop(signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK));
  const yaml::Places places = config->places;
  auto agent = node::NodeAgent::Open(std::move(*config), std::move(*slices), executor);
  if (!agent) return Complain(yaml::At(places, "state", agent.error()), kProgram);
  (*agent)->Run(stop.get());
  return 0;
}

}  // namespace
}  // namespace spillway::command

int main(int argc, char** argv) {
  return spillway::command::EndOutput(spillway::command::Main(argc, argv), spillway::command::kProgram);
}

// SPDX-License-Identifier: Apache-2.0
// spillway-executor: runs models on GPU slices for a gateway, or checks its file (--check). Exit code: 0 ok,
// 1 failed, 2 bad usage or input.
#include <spdlog/spdlog.h>
#include <sys/signalfd.h>
#include <unistd.h>
#include <CLI/CLI.hpp>

#include "base/fd.h"
#include "base/print.h"
#include "command/output.h"
#include "command/program.h"
#include "gateway/executor/executor.h"
#include "gateway/executor/executor_config.h"
#include "gateway/executor/nvml.h"

namespace spillway::command {
namespace {

constexpr const char* kProgram = "spillway-executor";

int Exit(const Error& error) { return Complain(error, kProgram); }

// Of what this machine lacks, or the file says wrongly of it; the engine names the place in the file itself.
int Exit(const std::string& config_file, const Error& error) {
  if (error.code == ErrorCode::kBadInput) return Exit(error);
  return Exit({error.code, config_file + ": " + error.message});
}

Result<std::unique_ptr<gateway::Engine>> MakeEngine(const gateway::ExecutorConfig& config) {
  if (!config.cuda) return gateway::MakeEmulatedEngine(config.models);
  auto driver = gateway::MakeCudaDriver();
  if (!driver) return tl::make_unexpected(driver.error());
  return gateway::MakeCudaEngine(config.models, config.places, std::move(*driver));
}

int Check(const std::string& config_file, const gateway::ExecutorConfig& config) {
  if (config.cuda) {
    const auto driver = gateway::MakeCudaDriver();
    if (!driver) return Exit(config_file, driver.error());
    const auto devices = gateway::FindCudaDevices(**driver, config.places);
    if (!devices) return Exit(config_file, devices.error());
  }
  base::Print("{}: ok\n", config_file);
  return 0;
}

// The words for `device:` in executor.yaml.
int ListDevices() {
  const auto devices = gateway::ListNvmlDevices();
  if (!devices) return Exit(devices.error());
  for (const gateway::CudaDevice& device : *devices)
    base::Print("{:<4} {} {} {} MiB{}\n", device.is_instance() ? "" : std::to_string(device.index),
                device.uuid, device.name, device.memory_bytes >> 20,
                device.in_instances ? " (cut into the instances below)" : "");
  return 0;
}

int Serve(const std::string& config_file, const gateway::ExecutorConfig& config) {
  const sigset_t signals = HoldSignals();  // CUDA's threads, too, leave them to us
  auto engine = MakeEngine(config);
  if (!engine) return Exit(config_file, engine.error());
  const base::Fd stop(signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK));
  gateway::ExecutorOptions options = config.options;
  // Not by exit: what CUDA would tidy up waits for the same device.
  options.on_stuck = [](const Error& error) {
    const int code = Exit({error.code, error.message + "; device is not responding; exiting"});
    std::fflush(nullptr);
    _exit(code);
  };
  gateway::Executor executor(options, **engine);
  const auto ran = executor.Run(stop.get());
  if (ran) spdlog::info("received SIGTERM or SIGINT, shut down");
  return ran ? 0 : Exit(ran.error());
}

int Main(int argc, char** argv) {
  CLI::App app("Runs inference on GPU slices for a gateway (host side).", kProgram);
  std::string config_file;
  bool check = false, list_devices = false;
  auto* config_option =
      app.add_option("-c,--config", config_file, "executor.yaml, see docs/gateway.md")->type_name("FILE");
  app.add_flag("--check", check, "Check the configuration, and that its GPUs are there, and exit");
  app.add_flag("--list-devices", list_devices, "List GPUs and their MIG instances, for device:, and exit");
  if (const auto ended = ParseCommandLine(app, argc, argv)) return *ended;
  LogToStderr(kProgram);
  if (list_devices) return ListDevices();
  if (config_option->empty())
    return Exit(
        {ErrorCode::kBadInput, "expected --config FILE (executor.yaml, docs/gateway.md) or --list-devices"});
  const auto config = gateway::LoadExecutorConfig(config_file);
  if (!config) return Exit(config.error());
  return check ? Check(config_file, *config) : Serve(config_file, *config);
}

}  // namespace
}  // namespace spillway::command

int main(int argc, char** argv) {
  return spillway::command::EndOutput(spillway::command::Main(argc, argv), spillway::command::kProgram);
}

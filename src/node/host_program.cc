// SPDX-License-Identifier: Apache-2.0
#include "node/host_program.h"

#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>

#include "base/paths.h"
#include "gateway/document.h"

namespace spillway::node {

Result<std::vector<std::string>> WordsOf(const NodeConfig& config, const scheduler::ServedModel& model) {
  const auto program = config.programs.find(model.host_program);
  if (program == config.programs.end())
    return Fail(ErrorCode::kBadInput,
                fmt::format("`programs` in node.yaml has no entry {}", model.host_program));
  return program->second;
}

std::vector<std::string> EnvironmentOf(const NodeConfig& config, const scheduler::WantedInstance& instance,
                                       const std::optional<SliceDevice>& device) {
  const bool is_remote = config.gateway.starts_with("rdma:");
  std::vector<std::string> environment{
      // A program may go to another folder before it asks.
      "SPILLWAY_GATEWAY=" + (is_remote ? config.gateway : base::AbsolutePath(config.gateway)),
      "SPILLWAY_TOKEN_FILE=" + config.token_file,
      fmt::format("SPILLWAY_INSTANCE=instance-{}", instance.instance),
      "SPILLWAY_MODEL=" + instance.model.name,
      "SPILLWAY_GPU=" + (device ? device->device : std::string("none")),
      // Without it CUDA would show all of the host's GPUs.
      "CUDA_VISIBLE_DEVICES=" + (device ? device->device : std::string()),
  };
  if (device) environment.push_back(fmt::format("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE={}", device->sm_percent));
  return environment;
}

std::vector<Error> TakeOutMissingPrograms(NodeConfig& config) {
  std::vector<Error> missing;
  for (auto at = config.programs.begin(); at != config.programs.end();) {
    const std::string& path = at->second.front();
    std::error_code unknown;
    if (std::filesystem::is_regular_file(path, unknown) && access(path.c_str(), X_OK) == 0) {
      ++at;
      continue;
    }
    missing.push_back(yaml::At(
        config.places, fmt::format("programs[{}].run", at->first),
        {ErrorCode::kBadInput, fmt::format("expected a program that can be executed, got {}", path)}));
    at = config.programs.erase(at);
  }
  return missing;
}

}  // namespace spillway::node

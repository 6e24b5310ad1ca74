// SPDX-License-Identifier: Apache-2.0
// node.yaml in memory, and its parser (docs/models.md has every key). Errors are kBadInput, a line per
// problem.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "api/client.h"
#include "gateway/document.h"
#include "node/slices.h"
#include "scheduler/controller/fleet.h"

namespace spillway::node {

struct NodeConfig {
  std::string name;         // of the host
  api::Service controller;  // whose word counts
  std::string state;        // folder: what runs here, which outlives the program
  // For executors: `gateway` and `token_file` of executor.yaml.
  std::string gateway, token_file;
  std::vector<scheduler::Gpu> gpus;
  std::map<std::string, double> gflop_per_s;   // by GPU: of all of it
  std::map<std::string, std::string> devices;  // by GPU, as the file has it; empty: they are emulated
  // That serve models, instead of an executor: their words, of which the first is an absolute path.
  std::map<std::string, std::vector<std::string>> programs;
  yaml::Places places;  // of `state`, of GPUs' `device` and `mig`, and of programs' `run`
};

[[nodiscard]] Result<NodeConfig> ParseNodeConfig(const std::string& yaml, const std::string& file_name);
// What cuts its GPUs. One whose UUID is not there, as it fell off the bus, is lost. kBadInput: an index that
// is not there, a device that is no whole GPU, or whose `mig` is not what it is; kUnavailable: no driver.
[[nodiscard]] Result<std::unique_ptr<Slices>> SlicesOf(const NodeConfig& config,
                                                       const std::string& nvml = gateway::NvmlLibrary::kUsual,
                                                       GpuWatchTimes times = {});
[[nodiscard]] Result<NodeConfig> LoadNodeConfig(const std::string& path);

}  // namespace spillway::node

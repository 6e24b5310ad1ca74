// SPDX-License-Identifier: Apache-2.0
// node.yaml in memory, and its parser (docs/models.md has every key). Errors are kBadInput, a line per
// problem.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "api/client.h"
#include "scheduler/controller/fleet.h"

namespace spillway::node {

struct NodeConfig {
  std::string name;         // of the host
  api::Service controller;  // whose word counts
  std::string state;        // folder: what runs here, which outlives the program
  // For executors: `gateway` and `token_file` of executor.yaml.
  std::string gateway, token_file;
  std::vector<scheduler::Gpu> gpus;
  std::map<std::string, double> gflop_per_s;  // by GPU: of all of it
};

[[nodiscard]] Result<NodeConfig> ParseNodeConfig(const std::string& yaml, const std::string& file_name);
[[nodiscard]] Result<NodeConfig> LoadNodeConfig(const std::string& path);

}  // namespace spillway::node

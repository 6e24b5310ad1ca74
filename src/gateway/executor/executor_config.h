// SPDX-License-Identifier: Apache-2.0
// executor.yaml in memory, and its parser (docs/gateway.md has every key). Errors are kBadInput, a line per
// problem.
#pragma once

#include <string>
#include <vector>

#include "gateway/document.h"
#include "gateway/executor/cuda_engine.h"
#include "gateway/executor/executor.h"

namespace spillway::gateway {

struct ExecutorConfig {
  bool cuda = false;              // engine: cuda, else emulated
  std::vector<CudaPlace> places;  // of each of options.slices, if cuda
  ExecutorOptions options;
  std::vector<ModelSpec> models;
};

// Keys `gateway` and `token_file`: where executors join, and the token that they show there.
void ReadGatewayAddress(yaml::Problems& problems, const yaml::MapReader& top, const std::string& file_name,
                        GatewayAddress& address);

[[nodiscard]] Result<ExecutorConfig> ParseExecutorConfig(const std::string& yaml,
                                                         const std::string& file_name);
[[nodiscard]] Result<ExecutorConfig> LoadExecutorConfig(const std::string& path);

}  // namespace spillway::gateway

// SPDX-License-Identifier: Apache-2.0
// spillway-kubernetes' file: the key `extender`, read whole and checked, with the files that it names. Errors
// are kBadInput, a line per problem. docs/kubernetes.md has every key.
#pragma once

#include <cstdint>
#include <string>

#include "base/error.h"
#include "scheduler/cluster_reader.h"

namespace spillway::kubernetes {

struct ExtenderConfig {
  std::string listen;      // ADDRESS:PORT
  std::string cluster;     // a cluster file; empty: labels say it all
  std::string api_server;  // http(s)://...; empty: none, the cluster file is all there is
  std::string token_file, ca_file;
  uint32_t resync_ms = 10'000;  // between two looks at all nodes and pods
  uint32_t timeout_ms = 2'000;  // of one call
};

// The paths in it are seen from the folder of `file_name`, and made absolute; what they lead to is not looked
// at.
[[nodiscard]] Result<ExtenderConfig> ParseExtenderConfig(const std::string& yaml,
                                                         const std::string& file_name);
// From a file, whose own files can be read, too.
[[nodiscard]] Result<ExtenderConfig> LoadExtenderConfig(const std::string& path);

// The cluster file of that configuration, or an empty one.
[[nodiscard]] Result<scheduler::ClusterFile> LoadCluster(const ExtenderConfig& config);

}  // namespace spillway::kubernetes

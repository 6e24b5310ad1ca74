// SPDX-License-Identifier: Apache-2.0
// Keys that gateway.yaml, executor.yaml and node.yaml have in common: sizes, socket paths, endpoints.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/yaml/documents.h"
#include "base/yaml/problems.h"
#include "base/yaml/reader.h"
#include "base/yaml/scalars.h"

namespace spillway::gateway {

// "64KiB", "16MiB", "2GiB" or a number of bytes, in [least, most].
std::optional<uint64_t> ReadBytes(yaml::Problems& problems, const yaml::Field& field, uint64_t least,
                                  uint64_t most);

// A path that a UNIX socket can have.
std::optional<std::string> ReadSocketPath(yaml::Problems& problems, const yaml::Field& field);

// "ADDRESS:PORT", numeric.
std::optional<std::string> ReadEndpoint(yaml::Problems& problems, const yaml::Field& field);

}  // namespace spillway::gateway

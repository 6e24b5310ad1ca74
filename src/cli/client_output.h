// SPDX-License-Identifier: Apache-2.0
// How client verbs talk to the daemon and print what it says: data to stdout, errors to stderr.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "api/client.h"
#include "base/error.h"
#include "command/context.h"
#include "command/output.h"

namespace spillway::command {

[[nodiscard]] Result<std::string> GetText(api::Client& client, const std::string& target);
[[nodiscard]] Result<nlohmann::json> GetJson(api::Client& client, const std::string& target);
[[nodiscard]] Result<nlohmann::json> PostJson(api::Client& client, const std::string& target,
                                              const std::string& body);

// "pool/server/unit", as users write a unit, as the API's path to it.
[[nodiscard]] Result<std::string> UnitTarget(const std::string& name);

// 12345678 as "12.3 M"; with a unit of measure, "12.3 MB".
std::string Scaled(double value, const char* unit = "");

}  // namespace spillway::command

// SPDX-License-Identifier: Apache-2.0
// How client verbs talk to the daemon and print what it says: data to stdout, errors to stderr.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "cmd/context.h"
#include "model/error.h"

namespace spillway::cmd {

// Prints "program: line" for each line of the message; the exit code for it.
int Complain(const Error& error, const char* program = "spillway");

[[nodiscard]] Result<std::string> GetText(api::Client& client, const std::string& target);
[[nodiscard]] Result<nlohmann::json> GetJson(api::Client& client, const std::string& target);
[[nodiscard]] Result<nlohmann::json> PostJson(api::Client& client, const std::string& target,
                                              const std::string& body);

// Indented, with a newline.
void PrintJson(const nlohmann::json& json);

// The whole file, or stdin for "-".
[[nodiscard]] Result<std::string> ReadInput(const std::string& path);

// "pool/server/unit", as users write a unit, as the API's path to it.
[[nodiscard]] Result<std::string> UnitTarget(const std::string& name);

// 12345678 as "12.3 M"; with a unit of measure, "12.3 MB".
std::string Scaled(double value, const char* unit = "");

}  // namespace spillway::cmd

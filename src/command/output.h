// SPDX-License-Identifier: Apache-2.0
// What verbs print: data to stdout, errors to stderr.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "base/error.h"

namespace spillway::command {

// Prints "program: line" for each line of the message; the exit code for it.
int Complain(const Error& error, const char* program = "spillway");

// Indented, with a newline.
void PrintJson(const nlohmann::json& json);

}  // namespace spillway::command

// SPDX-License-Identifier: Apache-2.0
// What programs print: data to stdout, errors to stderr.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "base/error.h"

namespace spillway::command {

// From here on Complain prints a document, too. Set once, before the verb runs.
void PrintErrorsAsJson(bool as_json);

// Where a program ends for this error: "program: line" to stderr for each line of the message, and with
// --json
// {"error": TEXT, "code": WORD} to stdout, one line, as the API answers. The exit code for it.
int Complain(const Error& error, const char* program = "spillway");

// The same of an error after the data was printed: stdout keeps its one document.
int ComplainAfterData(const Error& error, const char* program = "spillway");

// Ended by Ctrl-C: says so, and what of it was printed, if anything was ("these are the 3 runs that were
// done").
int Interrupted(const std::string& what = "");

// The last that a main does: `exit_code`, unless output was lost that it does not tell of. Then it says so on
// stderr, and the code is 1; quietly 141 where its reader was gone.
int EndOutput(int exit_code, const char* program = "spillway");

// "1 service", "2 services".
std::string Counted(size_t count, const std::string& noun);

// Indented, with a newline.
void PrintJson(const nlohmann::json& json);

}  // namespace spillway::command

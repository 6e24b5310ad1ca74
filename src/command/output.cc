// SPDX-License-Identifier: Apache-2.0
#include "command/output.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "command/exit_code.h"

namespace spillway::command {
namespace {

bool errors_as_json = false;

}  // namespace

void PrintErrorsAsJson(bool as_json) { errors_as_json = as_json; }

int Complain(const Error& error, const char* program) {
  if (errors_as_json)
    fmt::print("{}\n", nlohmann::json{{"error", error.message}, {"code", CodeWord(error.code)}}.dump(
                           -1, ' ', false, nlohmann::json::error_handler_t::replace));
  return ComplainAfterData(error, program);
}

int ComplainAfterData(const Error& error, const char* program) {
  std::istringstream lines(error.message);
  for (std::string line; std::getline(lines, line);) fmt::print(stderr, "{}: {}\n", program, line);
  return ExitCode(error);
}

int Interrupted(const std::string& what) {
  const Error error{ErrorCode::kUnavailable, what.empty() ? "interrupted" : "interrupted: " + what};
  what.empty() ? Complain(error) : ComplainAfterData(error);
  return kExitInterrupted;
}

std::string Counted(size_t count, const std::string& noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

void PrintJson(const nlohmann::json& json) {
  fmt::print("{}\n", json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
}

}  // namespace spillway::command

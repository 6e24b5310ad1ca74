// SPDX-License-Identifier: Apache-2.0
#include "command/output.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/print.h"
#include "command/exit_code.h"

namespace spillway::command {
namespace {

bool errors_as_json = false;

}  // namespace

void PrintErrorsAsJson(bool as_json) { errors_as_json = as_json; }

int Complain(const Error& error, const char* program) {
  if (errors_as_json)
    base::Print("{}\n", nlohmann::json{{"error", error.message}, {"code", CodeWord(error.code)}}.dump(
                            -1, ' ', false, nlohmann::json::error_handler_t::replace));
  return ComplainAfterData(error, program);
}

int ComplainAfterData(const Error& error, const char* program) {
  std::istringstream lines(error.message);
  for (std::string line; std::getline(lines, line);)
    base::PrintError("{}: {}\n", program, base::Printable(line));
  return ExitCode(error);
}

int Interrupted(const std::string& what) {
  const Error error{ErrorCode::kUnavailable, what.empty() ? "interrupted" : "interrupted: " + what};
  what.empty() ? Complain(error) : ComplainAfterData(error);
  return kExitInterrupted;
}

int EndOutput(int exit_code, const char* program) {
  const int error = base::OutputError();
  if (error == 0) return exit_code;
  if (error == EPIPE) return exit_code == kExitOk ? kExitBrokenPipe : exit_code;
  base::PrintError("{}: writing the output: {}\n", program, std::strerror(error));
  return exit_code == kExitOk ? kExitFailed : exit_code;
}

std::string Counted(size_t count, const std::string& noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

void PrintJson(const nlohmann::json& json) {
  base::Print("{}\n", json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
}

}  // namespace spillway::command

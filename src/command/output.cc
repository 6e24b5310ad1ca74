// SPDX-License-Identifier: Apache-2.0
#include "output.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "command/exit_code.h"

namespace spillway::command {

int Complain(const Error& error, const char* program) {
  std::istringstream lines(error.message);
  for (std::string line; std::getline(lines, line);) fmt::print(stderr, "{}: {}\n", program, line);
  return ExitCode(error);
}

void PrintJson(const nlohmann::json& json) {
  fmt::print("{}\n", json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
}

}  // namespace spillway::command

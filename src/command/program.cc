// SPDX-License-Identifier: Apache-2.0
#include "command/program.h"

#include <fmt/format.h>
#include <signal.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <string_view>

#include "base/version.h"
#include "command/exit_code.h"
#include "command/parse_arguments.h"

namespace spillway::command {

std::optional<int> ParseCommandLine(CLI::App& app, int argc, char** argv) {
  app.set_version_flag("--version", base::VersionLine(app.get_name()));
  app.footer(app.get_footer() + (app.get_footer().empty() ? "" : "\n") + kExitCodes);
  try {
    ParseArguments(app, argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);
    fmt::print(stderr, "{}", UsageError(app.get_name(), error.what()));
    return kExitBadInput;
  }
  return std::nullopt;
}

void LogToStderr(const std::string& program) {
  spdlog::set_default_logger(spdlog::stderr_logger_mt(program));
  spdlog::set_pattern("%Y-%m-%dT%H:%M:%S.%e %l %v");
}

int Report(const std::string& program, const Error& error) {
  // Of a bad file, a line per problem.
  for (size_t begin = 0; begin <= error.message.size();) {
    const size_t end = std::min(error.message.find('\n', begin), error.message.size());
    fmt::print(stderr, "{}: {}\n", program, std::string_view(error.message).substr(begin, end - begin));
    begin = end + 1;
  }
  return ExitCode(error);
}

sigset_t HoldSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  sigprocmask(SIG_BLOCK, &signals, nullptr);
  signal(SIGPIPE, SIG_IGN);
  return signals;
}

}  // namespace spillway::command

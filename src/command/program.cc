// SPDX-License-Identifier: Apache-2.0
#include "command/program.h"

#include <fmt/format.h>
#include <signal.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <CLI/CLI.hpp>
#include <cstdlib>

#include "base/print.h"
#include "base/version.h"
#include "command/exit_code.h"
#include "command/output.h"
#include "command/parse_arguments.h"

namespace spillway::command {
namespace {

// "--config is required" does not say what is in that file.
Error WithWhatIsMissing(const CLI::App& app, Error error) {
  for (const CLI::Option* option : app.get_options())
    if (error.message == option->get_name() + " is required")
      error.message = fmt::format("{} {} is required: {}", option->get_name(), option->get_type_name(),
                                  option->get_description());
  return error;
}

}  // namespace

std::optional<int> ParseCommandLine(CLI::App& app, int argc, char** argv, const char* exit_codes) {
  base::HoldStandardStreams();
  app.set_version_flag("--version", base::VersionLine(app.get_name()));
  app.footer(app.get_footer() + (app.get_footer().empty() ? "" : "\n") + exit_codes);
  PrintErrorsAsJson(AsksForJson(argc, argv));
  try {
    ParseArguments(app, argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return PrintAsked(app, error);
    return Complain(WithWhatIsMissing(app, UsageError(error)), app.get_name().c_str());
  }
  return std::nullopt;
}

void LogToStderr(const std::string& program, const std::string& level) {
  auto logger = spdlog::stderr_color_mt(program);
  logger->set_pattern(std::getenv("JOURNAL_STREAM") ? "%l: %v" : "%Y-%m-%dT%H:%M:%S.%e %^%l%$: %v");
  logger->set_level(spdlog::level::from_str(level));
  logger->flush_on(spdlog::level::debug);
  spdlog::set_default_logger(std::move(logger));
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

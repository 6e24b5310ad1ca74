// SPDX-License-Identifier: Apache-2.0
// The command line, where an unknown argument is reported before what is missing: whoever mistyped an
// option learns more from that. CLI11 looks for what is missing first.
#pragma once

#include <CLI/CLI.hpp>
#include <algorithm>
#include <regex>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/print.h"

namespace spillway::command {

inline void WaiveRequired(CLI::App& app) {
  for (CLI::Option* option : app.get_options()) option->required(false);
  for (CLI::App* verb : app.get_subcommands([](CLI::App*) { return true; })) WaiveRequired(*verb);
}

// As app.parse. Throws CLI::ParseError.
inline void ParseArguments(CLI::App& app, int argc, char** argv) {
  try {
    app.parse(argc, argv);
  } catch (const CLI::RequiredError&) {
    WaiveRequired(app);
    try {
      app.parse(argc, argv);
    } catch (const CLI::ExtrasError&) {
      throw;
    } catch (const CLI::Error&) {
      // What was missing comes first again.
    }
    throw;
  }
}

// One line, in the words of our own checks where CLI11 has others.
inline Error UsageError(const CLI::ParseError& error) {
  std::string what = error.what();
  std::replace(what.begin(), what.end(), '\n', ' ');
  static const std::pair<std::regex, const char*> kOurs[] = {
      // CLI::IsMember
      {std::regex(R"(^(.*): (.*) not in \{(.*)\}$)"), "$1: expected one of $3, got $2"},
      {std::regex(R"(^(.*): At Most 1 required but received (\d+)$)"), "$1: given $2 times"},
      {std::regex(R"(^(.*): 1 required (.*) missing$)"), "$1: expected $2, got nothing"},
  };
  for (const auto& [theirs, ours] : kOurs)
    if (std::smatch found; std::regex_match(what, found, theirs))
      return {ErrorCode::kBadInput, found.format(ours)};
  return {ErrorCode::kBadInput, what};
}

// What --help or --version asked for, which CLI11 throws as well; its exit code.
inline int PrintAsked(const CLI::App& app, const CLI::ParseError& asked) {
  std::ostringstream text;
  const int code = app.exit(asked, text, text);
  base::PrintText(text.str());
  return code;
}

// Whether --json is among the words, for errors of usage, which come before it is parsed. What follows `--`
// is another program's.
inline bool AsksForJson(int argc, char** argv) {
  for (int i = 1; i < argc && std::string_view(argv[i]) != "--"; i++)
    if (std::string_view(argv[i]) == "--json") return true;
  return false;
}

}  // namespace spillway::command

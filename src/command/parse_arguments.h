// SPDX-License-Identifier: Apache-2.0
// The command line, where an argument that nobody knows is said before what is missing: whoever mistyped an
// option learns more from that. CLI11 looks for what is missing first.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

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

// One line, with the program before it, whatever CLI11 says.
inline std::string UsageError(const std::string& program, std::string what) {
  for (char& c : what)
    if (c == '\n') c = ' ';
  return program + ": " + what + "\n";
}

}  // namespace spillway::command

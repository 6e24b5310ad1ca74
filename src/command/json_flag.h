// SPDX-License-Identifier: Apache-2.0
// --json, which the program takes before or after any verb, in each verb's own help.
#pragma once

#include <CLI/CLI.hpp>

namespace spillway::command {

inline constexpr const char* kJsonHelp = "One JSON document to stdout instead of text";

inline void ShowJsonFlag(CLI::App& app, bool& json) {
  const auto verbs = app.get_subcommands([](CLI::App*) { return true; });
  for (CLI::App* verb : verbs) ShowJsonFlag(*verb, json);
  // Those that hand all their words on have no help of their own.
  if (verbs.empty() && app.get_help_ptr() != nullptr) app.add_flag("--json", json, kJsonHelp);
}

}  // namespace spillway::command

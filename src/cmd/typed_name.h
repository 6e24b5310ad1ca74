// SPDX-License-Identifier: Apache-2.0
// Programs that a verb of `spillway` becomes: help and errors name what the user typed.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <string_view>

#include "cmd/exit_code.h"

namespace spillway::cmd {

// "spillway bench gateway" where `spillway` became this program for that verb; else `own`.
inline std::string TypedName(int argc, char** argv, const char* own) {
  const std::string_view name = argc > 0 ? argv[0] : "";
  return name.starts_with("spillway ") ? std::string(name) : own;
}

// The verb's help begins with what the user typed, and ends with the exit codes.
inline void NameAsTyped(CLI::App& verb, const std::string& typed) {
  struct AsTyped : CLI::Formatter {
    explicit AsTyped(std::string text) : typed(std::move(text)) {}
    std::string make_usage(const CLI::App* app, std::string) const override {
      return CLI::Formatter::make_usage(app, typed);
    }
    std::string typed;
  };
  verb.formatter(std::make_shared<AsTyped>(typed));
  verb.footer(kExitCodes);
}

// One line, with the program before it, whatever CLI11 says.
inline std::string UsageError(const std::string& program, std::string what) {
  for (char& c : what)
    if (c == '\n') c = ' ';
  return program + ": " + what + "\n";
}

}  // namespace spillway::cmd

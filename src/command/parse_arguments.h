// SPDX-License-Identifier: Apache-2.0
// The command line, where an unknown argument is reported before what is missing: whoever mistyped an
// option learns more from that. CLI11 looks for what is missing first.
#pragma once

#include <CLI/CLI.hpp>
#include <algorithm>
#include <sstream>
#include <string>
#include <string_view>

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

// "OPTION: fault" of CLI11 as our own checks would put it; what they have no other words for stays.
inline std::string InOurWords(const std::string& what) {
  constexpr std::string_view kNotIn = " not in {", kOften = "At Most 1 required but received ",
                             kOne = "1 required ", kMissing = " missing",
                             kUnexpected = "The following arguments were not expected: ";
  if (what.starts_with(kUnexpected)) {  // last first
    std::istringstream words(what.substr(kUnexpected.size()));
    std::string in_order;
    for (std::string word; words >> word;) in_order = word + (in_order.empty() ? "" : " ") + in_order;
    return std::string(kUnexpected) + in_order;
  }
  const size_t colon = what.find(": ");
  if (colon == std::string::npos) return what;
  const std::string option = what.substr(0, colon + 2), fault = what.substr(colon + 2);
  if (const size_t at = fault.find(kNotIn); at != std::string::npos && fault.ends_with('}')) {
    std::string choices;
    for (const char c : fault.substr(at + kNotIn.size(), fault.size() - at - kNotIn.size() - 1))
      choices += c == ',' ? std::string(", ") : std::string(1, c);
    return option + "expected one of " + choices + ", got " + fault.substr(0, at);
  }
  if (fault.starts_with(kOften)) return option + "given " + fault.substr(kOften.size()) + " times";
  if (fault.starts_with(kOne) && fault.ends_with(kMissing))
    return option + "expected " + fault.substr(kOne.size(), fault.size() - kOne.size() - kMissing.size()) +
           ", got nothing";
  return what;
}

// One line, whatever CLI11 says.
inline Error UsageError(const CLI::ParseError& error) {
  std::string what = error.what();
  std::replace(what.begin(), what.end(), '\n', ' ');
  return {ErrorCode::kBadInput, InOurWords(what)};
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

// SPDX-License-Identifier: Apache-2.0
// spillway-unit's command line. Pure but for CLI11's own help text.
#pragma once

#include <CLI/CLI.hpp>
#include <chrono>
#include <string>
#include <string_view>

#include "base/error.h"
#include "emulated_workers.h"
#include "server.h"

namespace spillway::unit {

// A time as options give it. As base::ParseDuration reads it; a bare number is seconds. Not negative, at most
// 365 days. Errors: kBadInput.
[[nodiscard]] Result<std::chrono::nanoseconds> ParseDuration(std::string_view text);

// Declares a time option ("500us") that fills `value`. What it holds now is the default that the help shows.
CLI::Option* AddDuration(CLI::App& app, const std::string& name, std::chrono::nanoseconds& value,
                         const std::string& help);

// Declares what every unit's program takes: where it listens and what it is called.
void AddServerOptions(CLI::App& app, ServerSettings& settings);

struct Settings : ServerSettings, EmulatedSettings {
  bool realtime = false;  // the program asks for real-time priority; Server itself does not
};

// Declares spillway-unit's options on `app`; `settings` is filled when it parses and outlives it.
void AddOptions(CLI::App& app, Settings& settings);

}  // namespace spillway::unit

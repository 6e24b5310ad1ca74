// SPDX-License-Identifier: Apache-2.0
// spillway-load's command line. Pure but for CLI11's own help text.
#pragma once

#include <string>

#include "settings.h"

namespace CLI {
class App;
}

namespace spillway::load {

struct Options {
  Settings settings;
  std::string samples_path;  // empty: none
  bool samples_csv = false;  // else binary
  bool realtime = false;     // the program asks for real-time priority
  bool quiet = false;        // no progress on stderr
};

// Declares spillway-load's options on `app`; `options` is filled when it parses and outlives it.
void AddOptions(CLI::App& app, Options& options);

}  // namespace spillway::load

// SPDX-License-Identifier: Apache-2.0
// What the verbs of `spillway` share, wherever they live.
//
// A verb group is one file with `void Add...Verbs(CLI::App& app, Context& context)`: it adds
// subcommands whose callbacks set `context.action`; main parses, then runs the action of the verb that
// was called and exits with what it returns. Both live as long as main.
#pragma once

#include <functional>
#include <string>

namespace spillway::command {

struct Context {
  bool json = false;            // --json: one JSON document to stdout instead of text
  std::string api;              // --api
  std::function<int()> action;  // exit code: see exit_code.h
};

}  // namespace spillway::command

// SPDX-License-Identifier: Apache-2.0
// What every verb group of the `spillway` program shares.
//
// A verb group is one file with `void Add...Verbs(CLI::App& app, Context& context)`: it adds
// subcommands whose callbacks set `context.action`; main parses, then runs the action of the verb that
// was called and exits with what it returns. Both live as long as main.
#pragma once

#include <functional>
#include <string>

#include "api/client.h"

namespace spillway::cmd {

struct Context {
  bool json = false;                      // --json: one JSON document to stdout instead of text
  std::string api = api::kDefaultSocket;  // --api
  std::function<int()> action;            // exit code: see exit_code.h
};

}  // namespace spillway::cmd

// SPDX-License-Identifier: Apache-2.0
// spillwayd without its main: start, event loop, signals (reload, stop), the way out. The switch comes from
// outside, so that tests run all of it, signals and sockets included, over a fake one.
//
// Threading: one loop (signals, netlink, a 1 s timer) beside the API's thread; api::Control's mutex is
// their only meeting point.
#pragma once

#include <functional>
#include <memory>

#include "daemon/daemon_options.h"
#include "model/pool.h"
#include "switch/switch.h"

namespace spillway::command {

struct SwitchSource {
  std::function<Result<std::unique_ptr<switching::Switch>>(const model::Config&, const switching::Options&)>
      start;
  std::function<Result<bool>(const switching::Options&)> remove_leftovers;
};

// The whole program; the exit code.
int RunSpillwayd(int argc, char** argv, const SwitchSource& source);

}  // namespace spillway::command

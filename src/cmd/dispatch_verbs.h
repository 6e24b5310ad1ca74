// SPDX-License-Identifier: Apache-2.0
// `bench dispatch` and `lab kvs` are a program of their own, spillway-dispatch, and `bench gateway` is
// spillway-executor's: DPDK and oneDNN, which they are linked to, are nothing that the command line should
// load to show a unit.
#pragma once

#include <CLI/CLI.hpp>

#include "cmd/context.h"

namespace spillway::cmd {

// Verbs that hand all the words behind them on, and become that program.
void AddDispatchVerbs(CLI::App& bench, CLI::App& lab, Context& context);

}  // namespace spillway::cmd

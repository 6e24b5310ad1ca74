// SPDX-License-Identifier: Apache-2.0
// `bench dispatch` and `lab kvs` are a program of their own, spillway-dispatch: DPDK, which it is linked to
// where there is one, is nothing that the command line should load to show a unit.
#pragma once

#include <CLI/CLI.hpp>

#include "cmd/context.h"

namespace spillway::cmd {

// Verbs that hand all the words behind them on, and become that program.
void AddDispatchVerbs(CLI::App& bench, CLI::App& lab, Context& context);

}  // namespace spillway::cmd

// SPDX-License-Identifier: Apache-2.0
// `bench dispatch` and `lab kvs` are a program of their own, spillway-dispatch: DPDK, which it is linked to
// where there is one, is nothing that the command line should load to show a unit.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>

namespace spillway::cmd {

// For the help of the two groups.
void AddDispatchVerbs(CLI::App& bench, CLI::App& lab);

// If the words are one of the two verbs, becomes that program. Returns nullopt if they are not, else the exit
// code: the program could not be started.
std::optional<int> BecomeDispatchProgram(int argc, char** argv);

}  // namespace spillway::cmd

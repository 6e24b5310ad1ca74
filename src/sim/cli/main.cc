// SPDX-License-Identifier: Apache-2.0
// spillway-sim: what `spillway sim` becomes.
#include "command/command_line.h"
#include "sim/cli/sim_verbs.h"

int main(int argc, char** argv) {
  return spillway::command::RunVerbProgram(argc, argv, "sim", spillway::command::AddSimVerbs);
}

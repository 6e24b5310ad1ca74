// SPDX-License-Identifier: Apache-2.0
// spillway-lab: what `spillway lab` becomes.
#include "command/command_line.h"
#include "lab/cli/lab_verbs.h"

int main(int argc, char** argv) {
  return spillway::command::RunVerbProgram(argc, argv, "lab", spillway::command::AddLabVerbs);
}

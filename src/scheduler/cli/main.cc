// SPDX-License-Identifier: Apache-2.0
// spillway-sched: what `spillway sched` becomes.
#include "command/command_line.h"
#include "scheduler/cli/sched_verbs.h"

int main(int argc, char** argv) {
  return spillway::command::RunVerbProgram(argc, argv, "sched", spillway::command::AddSchedVerbs);
}

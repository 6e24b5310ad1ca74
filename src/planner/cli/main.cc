// SPDX-License-Identifier: Apache-2.0
// spillway-plan: what `spillway plan` becomes.
#include "command/command_line.h"
#include "planner/cli/plan_verbs.h"

int main(int argc, char** argv) {
  return spillway::command::RunVerbProgram(argc, argv, "plan", spillway::command::AddPlanVerbs);
}

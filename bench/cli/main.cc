// SPDX-License-Identifier: Apache-2.0
// spillway-bench: what `spillway bench` becomes.
#include "bench/cli/bench_verbs.h"
#include "command/command_line.h"

int main(int argc, char** argv) {
  return spillway::command::RunVerbProgram(argc, argv, "bench", spillway::command::AddBenchVerbs);
}

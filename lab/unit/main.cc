// SPDX-License-Identifier: Apache-2.0
// spillway-unit: an emulated processing unit. Statistics as one JSON line on stdout at SIGUSR1 and at the
// end; SIGINT and SIGTERM end it.
#include <sys/prctl.h>

#include <CLI/CLI.hpp>

#include "base/print.h"
#include "command/output.h"
#include "command/program.h"
#include "options.h"
#include "program.h"

namespace {

int Main(int argc, char** argv) {
  CLI::App app("Emulates a processing unit: k workers and one queue, without burning the CPU.",
               "spillway-unit");
  spillway::unit::Settings settings;
  spillway::unit::AddOptions(app, settings);
  if (const auto ended = spillway::command::ParseCommandLine(app, argc, argv)) return *ended;
  (void)::prctl(PR_SET_TIMERSLACK, 1UL);
  const int signal_fd = spillway::unit::TakeSignals();
  if (settings.realtime && !spillway::unit::TakeRealtimePriority()) {
    spillway::base::PrintError("spillway-unit: --realtime: not permitted (needs CAP_SYS_NICE)\n");
    return 1;
  }
  return spillway::unit::Serve("spillway-unit", settings,
                               std::make_unique<spillway::unit::EmulatedWorkers>(settings), signal_fd);
}

}  // namespace

int main(int argc, char** argv) { return spillway::command::EndOutput(Main(argc, argv), "spillway-unit"); }

// SPDX-License-Identifier: Apache-2.0
// spillway-neighbour: a noisy neighbour for a unit of the lab. Burns a CPU for a while in every so long, by
// the clock, until SIGINT or SIGTERM ends it.
#include <time.h>

#include <CLI/CLI.hpp>

#include "command/output.h"
#include "command/program.h"
#include "lab/unit/clock.h"
#include "lab/unit/options.h"

int main(int argc, char** argv) {
  CLI::App app("Generates periodic CPU load, beside a unit that works.", "spillway-neighbour");
  std::chrono::nanoseconds every = std::chrono::seconds(5), busy = std::chrono::seconds(1);
  spillway::unit::AddDuration(app, "--every", every, "From one busy time to the next");
  spillway::unit::AddDuration(app, "--for", busy, "How long each lasts");
  app.final_callback([&every, &busy] {
    if (every.count() <= 0 || busy > every)
      throw CLI::ValidationError("--for", "must not be longer than --every");
  });
  if (const auto ended = spillway::command::ParseCommandLine(app, argc, argv))
    return spillway::command::EndOutput(*ended, "spillway-neighbour");
  for (std::int64_t start = spillway::unit::MonotonicNs();; start += every.count()) {
    while (spillway::unit::MonotonicNs() < start + busy.count()) {
    }
    const std::int64_t next = start + every.count();
    const timespec until{next / 1'000'000'000, next % 1'000'000'000};
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, nullptr);
  }
}

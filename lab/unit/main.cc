// SPDX-License-Identifier: Apache-2.0
// spillway-unit: an emulated processing unit. Statistics as one JSON line on stdout at SIGUSR1 and at the
// end; SIGINT and SIGTERM end it.
#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cstdio>

#include "options.h"
#include "priority.h"
#include "server.h"

namespace {

void PrintSummary(spillway::unit::Server& server) {
  fmt::print("{}\n", server.Summary().dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Emulates a processing unit: k workers and one queue, without burning the CPU.",
               "spillway-unit");
  spillway::unit::Settings settings;
  spillway::unit::AddOptions(app, settings);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }

  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) == 0) {
    files.rlim_cur = files.rlim_max;
    (void)::setrlimit(RLIMIT_NOFILE, &files);
  }
  (void)::prctl(PR_SET_TIMERSLACK, 1UL);
  sigset_t signals;
  ::sigemptyset(&signals);
  for (int signal : {SIGINT, SIGTERM, SIGUSR1}) ::sigaddset(&signals, signal);
  ::sigprocmask(SIG_BLOCK, &signals, nullptr);
  const int signal_fd = ::signalfd(-1, &signals, SFD_NONBLOCK | SFD_CLOEXEC);

  if (settings.realtime && !spillway::unit::TakeRealtimePriority()) {
    fmt::print(stderr, "spillway-unit: --realtime: not permitted (needs CAP_SYS_NICE)\n");
    return 1;
  }

  auto server = spillway::unit::Server::Open(settings);
  if (!server) {
    fmt::print(stderr, "spillway-unit: {}\n", server.error().message);
    return 1;
  }
  for (const auto& address : (*server)->addresses())
    fmt::print(stderr, "spillway-unit: {} answers at {}\n", settings.name, address.Text());

  const auto run = (*server)->Run(signal_fd, [&] {
    signalfd_siginfo info{};
    while (::read(signal_fd, &info, sizeof info) == sizeof info) {
      if (info.ssi_signo != SIGUSR1) return false;
      PrintSummary(**server);
    }
    return true;
  });
  PrintSummary(**server);
  if (!run) {
    fmt::print(stderr, "spillway-unit: {}\n", run.error().message);
    return 1;
  }
  return 0;
}

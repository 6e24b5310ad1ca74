// SPDX-License-Identifier: Apache-2.0
#include "lab/unit/program.h"

#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "base/print.h"

namespace spillway::unit {

namespace {

void PrintSummary(Server& server) {
  base::Print("{}\n",
              server.Summary().dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
}

}  // namespace

int TakeSignals() {
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) == 0) {
    files.rlim_cur = files.rlim_max;
    (void)::setrlimit(RLIMIT_NOFILE, &files);
  }
  sigset_t signals;
  ::sigemptyset(&signals);
  for (int signal : {SIGINT, SIGTERM, SIGUSR1}) ::sigaddset(&signals, signal);
  ::sigprocmask(SIG_BLOCK, &signals, nullptr);
  return ::signalfd(-1, &signals, SFD_NONBLOCK | SFD_CLOEXEC);
}

int Serve(std::string_view program, const ServerSettings& settings, std::unique_ptr<Workers> workers,
          int signal_fd) {
  auto server = Server::Open(settings, std::move(workers));
  if (!server) {
    base::PrintError("{}: {}\n", program, server.error().message);
    return 1;
  }
  for (const auto& address : (*server)->addresses())
    base::PrintError("{}: {} answers at {}\n", program, settings.name, address.Text());

  const auto run = (*server)->Run(signal_fd, [&] {
    signalfd_siginfo info{};
    while (::read(signal_fd, &info, sizeof info) == sizeof info) {
      if (info.ssi_signo != SIGUSR1) return false;
      PrintSummary(**server);
    }
    return true;
  });
  PrintSummary(**server);
  if (!run) base::PrintError("{}: {}\n", program, run.error().message);
  return run ? 0 : 1;
}

bool TakeRealtimePriority() {
  sched_param priority{};
  priority.sched_priority = 5;
  return ::sched_setscheduler(0, SCHED_FIFO | SCHED_RESET_ON_FORK, &priority) == 0;
}

}  // namespace spillway::unit

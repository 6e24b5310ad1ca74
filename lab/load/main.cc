// SPDX-License-Identifier: Apache-2.0
// spillway-load: an open-loop client. The outcome as JSON on stdout, progress on stderr. SIGINT and SIGTERM
// end it early: what was sent is reported and the exit code is 130.
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/print.h"
#include "command/exit_code.h"
#include "command/output.h"
#include "command/program.h"
#include "generator.h"
#include "lab/unit/program.h"
#include "options.h"
#include "outcome.h"
#include "report/file.h"
#include "report/progress.h"

namespace {

int Main(int argc, char** argv) {
  CLI::App app("Sends requests at a given rate, whether or not they are answered, and records each.",
               "spillway-load");
  spillway::load::Options options;
  spillway::load::AddOptions(app, options);
  if (const auto ended = spillway::command::ParseCommandLine(app, argc, argv, spillway::command::kExitCodes))
    return *ended;

  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) == 0) {
    files.rlim_cur = files.rlim_max;
    (void)::setrlimit(RLIMIT_NOFILE, &files);
  }
  (void)::prctl(PR_SET_TIMERSLACK, 1UL);
  sigset_t signals;
  ::sigemptyset(&signals);
  for (int signal : {SIGINT, SIGTERM}) ::sigaddset(&signals, signal);
  ::sigprocmask(SIG_BLOCK, &signals, nullptr);
  const int signal_fd = ::signalfd(-1, &signals, SFD_NONBLOCK | SFD_CLOEXEC);

  if (options.realtime && !spillway::unit::TakeRealtimePriority()) {
    spillway::base::PrintError("spillway-load: --realtime: not permitted (needs CAP_SYS_NICE)\n");
    return 1;
  }
  std::optional<spillway::report::Progress> progress;
  spillway::load::OnProgress on_progress;
  if (!options.quiet) {
    progress.emplace("spillway-load");
    on_progress = [&](double fraction, const spillway::load::Ledger&) { progress->Update(fraction, ""); };
  }
  const auto run = spillway::load::Generate(options.settings, signal_fd, on_progress);
  if (!run) {
    progress.reset();
    spillway::base::PrintError("spillway-load: {}\n", run.error().message);
    return 1;
  }
  if (progress) run->interrupted ? progress->Stop("interrupted") : progress->Finish("");
  spillway::base::Print(
      "{}\n",
      ToJson(options.settings, *run).dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
  if (!options.samples_path.empty()) {
    const auto written = spillway::report::WriteFile(
        options.samples_path, options.samples_csv ? SamplesCsv(run->ledger) : SamplesBinary(run->ledger));
    if (!written) {
      spillway::base::PrintError("spillway-load: {}\n", written.error().message);
      return 1;
    }
  }
  return run->interrupted ? spillway::command::kExitInterrupted : 0;
}

}  // namespace

int main(int argc, char** argv) { return spillway::command::EndOutput(Main(argc, argv), "spillway-load"); }

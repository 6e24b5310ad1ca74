// SPDX-License-Identifier: Apache-2.0
// spillway lab gpus.
#include "lab_verbs.h"

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "base/paths.h"
#include "base/print.h"
#include "base/signals.h"
#include "command/exit_code.h"
#include "command/option_checks.h"
#include "command/output.h"
#include "command/report_files.h"
#include "lab/experiment/named.h"
#include "lab/gpus/gpus_experiment.h"
#include "report/progress.h"
#include "report/table.h"

namespace spillway::command {
namespace {

// Who may not have namespaces has all on one network, as by --loopback.
Result<lab::HostNetwork> NetworkFor(const GpusOptions& options, int hosts) {
  if (options.loopback) return lab::HostNetwork::Loopback();
  auto made = lab::HostNetwork::Namespaces(hosts);
  if (made || made.error().code != ErrorCode::kUnavailable) return made;
  base::PrintError("spillway: lab gpus: on one network: {}\n", made.error().message);
  return lab::HostNetwork::Loopback();
}

}  // namespace

int RunGpus(const GpusOptions& options, bool as_json) {
  const std::string programs = base::ProgramFolder();
  const std::string file =
      options.file.empty() ? lab::LabFolder(programs) + "/../models/jobs.yaml" : options.file;
  if (const auto there = CheckParent("--out", options.out); !there) return Complain(there.error());
  auto jobs = lab::LoadGpuJobs(file);
  if (!jobs) return Complain(jobs.error());
  if (options.quick) jobs->compress *= 4;
  std::string folder = options.folder;
  if (folder.empty()) {
    const auto temporary = base::TemporaryFolder();
    if (!temporary) return Complain(temporary.error());
    folder = fmt::format("{}/spillway-lab-gpus-{}", *temporary, geteuid());
  }
  base::InterruptGuard guard;
  report::Progress progress("lab gpus");
  const auto network = NetworkFor(options, jobs->hosts);
  if (!network) return Complain(network.error());
  auto result =
      lab::RunGpus(*jobs, programs, folder, *network,
                   [&](double fraction, const std::string& message) { progress.Update(fraction, message); });
  if (base::Interrupted()) return Interrupted();
  if (!result) return Complain(result.error());
  progress.Finish("done");
  if (const auto wrote = WriteReport(options.out, result->page, result->document, !as_json); !wrote)
    return ComplainAfterData(wrote.error());
  base::Print("{}",
              as_json ? result->document.Dump() : report::Table::FromRows(result->document.rows()).Text());
  return kExitOk;
}

void AddGpusVerb(CLI::App& lab_app, Context& context) {
  auto options = std::make_shared<GpusOptions>();
  CLI::App* verb = lab_app.add_subcommand(
      "gpus",
      "Jobs on hosts of emulated GPUs under no-sharing, first-fit and spillway, under continuous requests");
  verb->add_option("FILE", options->file, "Hosts and jobs (YAML); default: models/jobs.yaml of the examples");
  verb->add_option("--out", options->out, "Folder for report.html and report.json")
      ->type_name("DIR")
      ->check(NonEmpty());
  verb->add_option("--folder", options->folder,
                   "For sockets and logs; default: spillway-lab-gpus-UID in /tmp")
      ->type_name("DIR")
      ->check(NonEmpty());
  verb->add_flag("--loopback", options->loopback,
                 "Run all hosts on loopback, instead of in network namespaces of their own");
  verb->add_flag("--quick", options->quick, "Run the schedule four times faster");
  verb->callback([options, &context] {
    context.action = [options, &context] { return RunGpus(*options, context.json); };
  });
}

}  // namespace spillway::command

// SPDX-License-Identifier: Apache-2.0
#include "sim_verbs.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>

#include "base/print.h"
#include "base/signals.h"
#include "command/exit_code.h"
#include "command/option_checks.h"
#include "command/output.h"
#include "report/file.h"
#include "report/progress.h"
#include "sim/scenario/scenario_reader.h"
#include "sim/sim_report.h"

namespace spillway::command {
namespace {

struct SimOptions {
  std::string file, folder;
  unsigned threads = 0;
  uint64_t requests = 0;
  bool quick = false;
};

sim::SweepResult Sweep(const sim::Scenario& scenario, unsigned threads) {
  report::Progress progress("sim " + scenario.name, report::kQuietStart);
  base::InterruptGuard guard;
  sim::SweepResult sweep = sim::RunSweep(
      scenario, threads,
      [&](size_t done, size_t total, const std::string&) {
        progress.Update(static_cast<double>(done) / static_cast<double>(total), "");
      },
      [] { return base::Interrupted(); });
  sweep.interrupted ? progress.Stop("interrupted") : progress.Finish("done");
  return sweep;
}

int RunSim(const SimOptions& options, bool as_json) {
  auto scenario = sim::LoadScenario(options.file);
  if (!scenario) return Complain(scenario.error());
  for (const std::string& doubt : sim::Doubts(*scenario, options.file))
    base::PrintError("spillway: {}\n", base::Printable(doubt));
  if (options.requests > 0) sim::Resize(*scenario, options.requests);
  if (options.quick) sim::Resize(*scenario, std::max<uint64_t>(scenario->requests / 10, 1));
  // Before the time that the runs take.
  if (auto made = options.folder.empty() ? Result<void>() : report::MakeFolder(options.folder); !made)
    return Complain({made.error().code, "--out " + made.error().message});
  const sim::SweepResult sweep = Sweep(*scenario, options.threads);
  const sim::Results results{*scenario, sweep, sim::Judge(*scenario, sweep.rows)};
  const report::Document document = sim::ResultDocument(results);
  base::Print("{}", as_json ? document.Dump() : sim::ResultText(results));
  if (!options.folder.empty()) {
    const std::string page = options.folder + "/report.html";
    if (auto written = document.Write(options.folder + "/report.json"); !written)
      return ComplainAfterData(written.error());
    if (auto written = sim::ResultPage(results, document).Write(page); !written)
      return ComplainAfterData(written.error());
    if (!as_json) base::Print("{}\n", page);
  }
  if (!sweep.interrupted) return kExitOk;
  return Interrupted(fmt::format("these are the {} points that were done", sweep.rows.size()));
}

}  // namespace

void AddSimVerbs(CLI::App& app, Context& context) {
  auto o = std::make_shared<SimOptions>();
  CLI::App* sim =
      app.add_subcommand("sim", "Simulate policies on modelled units, with the data plane's own decisions");
  sim->add_option("SCENARIO", o->file, "Scenario file (YAML), see docs/sim.md; - is stdin")->required();
  sim->add_option("--out", o->folder, "Folder for report.html and report.json")
      ->type_name("DIR")
      ->check(NonEmpty());
  sim->add_option("--threads", o->threads, "Runs at a time; default: one per CPU")->check(InRange(1, 1024));
  CLI::Option* requests =
      sim->add_option("--requests", o->requests, "Measured requests per run, instead of the file's")
          ->check(InRange(uint64_t{100}, uint64_t{10'000'000'000}));
  sim->add_flag("--quick", o->quick, "A tenth of the file's requests")->excludes(requests);
  sim->callback([o, &context] { context.action = [o, &context] { return RunSim(*o, context.json); }; });
}

}  // namespace spillway::command

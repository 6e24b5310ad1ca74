// SPDX-License-Identifier: Apache-2.0
// spillway lab paper.
#include "lab_verbs.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/paths.h"
#include "base/print.h"
#include "base/signals.h"
#include "command/exit_code.h"
#include "command/option_checks.h"
#include "command/output.h"
#include "lab/experiment/experiment.h"
#include "lab/experiment/named.h"
#include "lab/paper/paper_report.h"
#include "lab/testbed/testbed.h"
#include "report/file.h"
#include "report/progress.h"
#include "sim/scenario/scenario_reader.h"

namespace spillway::command {
namespace {

constexpr int kRepeats = 9, kQuickRepeats = 3;  // of each simulated run

struct PaperOptions {
  std::string out;
  bool emulated = false, quick = false, sim_only = false;
};

Result<lab::PaperFigures> Simulate(const std::string& folder, int repeats) {
  report::Progress progress("sim paper");
  lab::PaperFigures figures;
  const auto& scenarios = lab::PaperScenarios();
  for (size_t i = 0; i < scenarios.size(); i++) {
    progress.Update(static_cast<double>(i) / static_cast<double>(scenarios.size()),
                    "figure " + scenarios[i].figure);
    const auto scenario = sim::LoadScenario(folder + "/" + scenarios[i].file);
    if (!scenario) return tl::make_unexpected(scenario.error());
    lab::PaperFigure& figure = figures[scenarios[i].figure];
    if (figure.readings.empty() && scenarios[i].figure == "4a") lab::ReadUnits(*scenario, figure);
    figure.readings.push_back(
        lab::SimulateAsPublished(*scenario, scenarios[i], repeats, [] { return base::Interrupted(); }));
    if (base::Interrupted()) return Fail(ErrorCode::kSystem, "interrupted");
  }
  progress.Finish("done");
  return figures;
}

Result<lab::PaperFigures> MeasureInLab(const PaperOptions& options, const std::string& folder) {
  lab::PaperFigures figures;
  for (const char* name : {"fig4a", "fig4b", "fig5", "fig6"}) {
    // Figure 6 is measured on emulated units in any case.
    const bool emulated = options.emulated && std::string(name) != "fig6";
    const auto files = lab::FindExperiment({name, {}, emulated}, folder);
    if (!files) return tl::make_unexpected(files.error());
    std::vector<lab::ExperimentSpec> specs;
    for (const lab::NamedFile& file : *files) {
      auto spec = lab::LoadExperiment(file.path, options.quick);
      if (!spec) return tl::make_unexpected(spec.error());
      spec->app = file.app;
      specs.push_back(std::move(*spec));
    }
    const std::string out = options.out.empty() ? "" : options.out + "/" + name;
    if (auto made = out.empty() ? Result<void>() : report::MakeFolder(out); !made)
      return tl::make_unexpected(made.error());
    const auto outcome = lab::RunExperiments(name, specs, out);
    if (!outcome) return tl::make_unexpected(outcome.error());
    if (outcome->interrupted) return Fail(ErrorCode::kUnavailable, "interrupted");
    lab::AddLabDocument(name, nlohmann::json::parse(outcome->document), emulated, figures);
  }
  return figures;
}

int RunPaper(const Context& context, const PaperOptions& options) {
  if (!options.sim_only && geteuid() != 0)
    return Complain(
        {ErrorCode::kUnavailable, "lab paper: the lab's testbeds need root; --sim-only does without"});
  if (auto made = options.out.empty() ? Result<void>() : report::MakeFolder(options.out); !made)
    return Complain(made.error());
  base::InterruptGuard guard;
  const std::string lab_folder = lab::LabFolder(base::ProgramFolder());
  const int repeats = options.quick ? kQuickRepeats : kRepeats;
  const auto simulated = Simulate(lab_folder + "/../sim", repeats);
  if (!simulated) return base::Interrupted() ? Interrupted() : Complain(simulated.error());
  std::optional<lab::PaperFigures> measured;
  if (!options.sim_only) {
    auto figures = MeasureInLab(options, lab_folder);
    if (!figures) return base::Interrupted() ? Interrupted() : Complain(figures.error());
    measured = std::move(*figures);
  }
  const auto rows = lab::JudgePaper(*simulated, measured ? &*measured : nullptr);
  const report::Document document = lab::PaperDocument(rows, repeats);
  if (!options.out.empty())
    if (auto written = document.Write(options.out + "/report.json"); !written)
      return Complain(written.error());
  base::Print("{}", context.json ? document.Dump() : lab::PaperText(rows, measured.has_value()));
  return kExitOk;
}

}  // namespace

void AddPaperVerb(CLI::App& lab, Context& context) {
  auto o = std::make_shared<PaperOptions>();
  CLI::App* paper = lab.add_subcommand("paper",
                                       "P4Mite's claims (ICNP 2022), figure by figure, beside what the "
                                       "simulator and the lab find (root, but for "
                                       "--sim-only)");
  auto* emulated =
      paper->add_flag("--emulated", o->emulated, "The lab's figures on emulated units, which burn no CPU");
  paper->add_flag("--quick", o->quick, "The lab files' short forms, and fewer repetitions in the simulator");
  paper->add_flag("--sim-only", o->sim_only, "Without the lab, which requires root and takes tens of minutes")
      ->excludes(emulated);
  paper->add_option("--out", o->out, "Folder for report.json, and the reports of the lab's runs")
      ->type_name("DIR")
      ->check(NonEmpty());
  paper->callback([o, &context] { context.action = [o, &context] { return RunPaper(context, *o); }; });
}

}  // namespace spillway::command

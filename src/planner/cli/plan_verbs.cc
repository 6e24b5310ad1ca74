// SPDX-License-Identifier: Apache-2.0
#include "plan_verbs.h"

#include <CLI/CLI.hpp>
#include <chrono>
#include <memory>

#include "base/print.h"
#include "base/signals.h"
#include "base/yaml/scalars.h"
#include "command/exit_code.h"
#include "command/option_checks.h"
#include "command/output.h"
#include "command/report_files.h"
#include "planner/catalogue_reader.h"
#include "planner/check/rehearsal_report.h"
#include "planner/cli/plan_input.h"
#include "planner/compare_report.h"
#include "planner/explain_report.h"
#include "planner/paper_report.h"
#include "planner/probe/probe_entry.h"
#include "planner/search_report.h"
#include "report/file.h"
#include "report/progress.h"

namespace spillway::command {
namespace {

constexpr int kMaxPhi = 8;

int RunCompare(const PlanOptions& o, bool as_json) {
  const auto input = ReadPlanInput(o);
  if (!input) return Complain(input.error());
  if (const auto comparable = CheckComparable(*input, o); !comparable) return Complain(comparable.error());
  const planner::ClusterModel model(*input);
  const auto comparisons = planner::Compare(model, kMaxPhi);
  const report::Document document = planner::CompareDocument(*input, comparisons);
  base::Print("{}", as_json ? document.Dump() : planner::CompareText(*input, comparisons));
  const auto written =
      WriteReport(o.folder, planner::ComparePage(*input, comparisons, document), document, !as_json);
  return written ? kExitOk : ComplainAfterData(written.error());
}

int RunSearch(const PlanOptions& o, bool as_json) {
  const auto input = ReadPlanInput(o);
  if (!input) return Complain(input.error());
  const planner::ClusterModel model(*input);
  report::Progress progress("plan " + input->workload.name, report::kQuietStart);
  base::InterruptGuard guard;
  const auto begin = std::chrono::steady_clock::now();
  const planner::Found found = planner::Inquire(
      model, o.Objective(), !o.no_sensitivity,
      {[&](double share) { progress.Update(share, ""); }, [] { return base::Interrupted(); }},
      [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(); });
  found.is_interrupted ? progress.Stop("interrupted") : progress.Finish("done");
  if (found.is_interrupted && !found.answer.best) return Interrupted();
  const report::Document document = planner::SearchDocument(found);
  base::Print("{}", as_json ? document.Dump() : planner::SearchText(found));
  if (found.is_interrupted)
    return Interrupted(found.answer.stopped ? "this is the best mix that was found until then"
                                            : "this is the best mix; what explains it is missing");
  if (const auto written = WriteReport(o.folder, planner::SearchPage(found, document), document, !as_json);
      !written)
    return ComplainAfterData(written.error());
  return found.answer.best ? kExitOk : kExitFailed;
}

int RunExplain(const PlanOptions& o, bool as_json) {
  const auto input = ReadPlanInput(o);
  if (!input) return Complain(input.error());
  const planner::ClusterModel model(*input);
  const auto mix = ChooseMix(model, o);
  if (!mix) return Complain(mix.error());
  if (!as_json) {
    base::Print("{}", planner::ExplainText(model, *mix));
    return kExitOk;
  }
  report::Document document("plan.explain." + input->workload.name);
  for (const auto& row : planner::ExplainRows(model, *mix)) document.AddRow(row);
  base::Print("{}", document.Dump());
  return kExitOk;
}

int RunSimulate(const PlanOptions& o, bool as_json) {
  const auto input = ReadPlanInput(o);
  if (!input) return Complain(input.error());
  const planner::ClusterModel model(*input);
  const auto mix = ChooseMix(model, o);
  if (!mix) return Complain(mix.error());
  report::Progress progress("plan simulate " + input->workload.name, report::kQuietStart);
  base::InterruptGuard guard;
  const planner::Rehearsal rehearsal = planner::Rehearse(
      model, *mix, o.requests, o.threads,
      [&](size_t done, size_t total, const std::string&) {
        progress.Update(static_cast<double>(done) / static_cast<double>(total), "");
      },
      [] { return base::Interrupted(); });
  rehearsal.interrupted ? progress.Stop("interrupted") : progress.Finish("done");
  if (rehearsal.interrupted) return Interrupted();
  base::Print("{}", as_json ? planner::RehearsalDocument(*input, rehearsal).Dump()
                            : planner::RehearsalText(*input, *mix, rehearsal));
  return kExitOk;
}

int RunPaper(bool as_json) {
  const auto rows = planner::RecomputePaper(planner::ShippedCatalogue());
  base::Print("{}", as_json ? planner::PaperDocument(rows).Dump() : planner::PaperText(rows));
  return kExitOk;
}

struct ProbeOptions {
  bool quick = false, smartnic = false;
  planner::ProbedMachine machine;
  std::string file;
};

int RunProbe(ProbeOptions o, bool as_json) {
  const report::Machine here = report::ReadMachine();
  planner::ProbeSetup setup;
  setup.cpus = planner::UsableCpus();
  const int cores = static_cast<int>(setup.cpus.size());
  setup.busy = planner::BusyCounts(cores, o.quick);
  setup.duration = std::chrono::milliseconds(o.quick ? 250 : 1000);
  setup.rounds = o.quick ? 3 : 5;
  setup.scale = planner::ScaleThatFits(o.quick ? 1 : 6, cores, here.memory_gib);
  o.machine.cores = cores;
  constexpr double kGbPerGib = 1.073741824;
  o.machine.memory_gb = here.memory_gib * kGbPerGib;
  o.machine.platform = o.smartnic ? planner::Platform::kSmartNic : planner::Platform::kServer;

  report::Progress progress("plan probe", report::kQuietStart);
  base::InterruptGuard guard;
  const auto points = planner::Probe(
      setup, [&](double share, const std::string& kernel) { progress.Update(share, kernel); },
      [] { return base::Interrupted(); });
  if (!points) {
    progress.Stop("failed");
    return Complain(points.error());
  }
  progress.Finish("done");
  const planner::Node entry = planner::EntryOf(*points, o.machine, planner::ShippedCatalogue());
  const std::string document = planner::ProbeJson(*points, entry, setup.rounds).dump(2) + "\n";
  if (!o.file.empty())
    if (const auto written = report::WriteFile(o.file, document); !written) return Complain(written.error());
  if (as_json) {
    base::Print("{}", document);
    return kExitOk;
  }
  base::Print("{}, {} cores\n\n{}\n", here.cpu, cores, planner::ProbeTable(*points).Text());
  for (const auto& [kernel, rate] : entry.contention)
    base::Print("{}: a core loses {:.0f} % with all cores busy\n", kernel, 100 * rate.Drop());
  base::Print("{:.2f} times an IPU E2000 ({})\n", entry.throughput.at("ipu-e2000"),
              entry.sources.at("throughput"));
  if (!o.file.empty()) base::Print("{}: use it with --catalogue, or a workload's catalogues\n", o.file);
  return kExitOk;
}

void AddOut(CLI::App& verb, PlanOptions& o) {
  verb.add_option("--out", o.folder, "Folder for report.html and report.json")
      ->type_name("DIR")
      ->check(NonEmpty());
}

void AddProbe(CLI::App& plan, Context& context) {
  auto o = std::make_shared<ProbeOptions>();
  CLI::App* probe =
      plan.add_subcommand("probe", "Measure this machine's cores, alone and together: a catalogue node");
  probe->add_flag("--quick", o->quick,
                  "Under 30 s: shorter rounds, fewer counts of busy cores, smaller data");
  probe->add_option("--name", o->machine.name, "Name of the node")
      ->capture_default_str()
      ->check([](const std::string& name) {
        return yaml::IsName(name) ? std::string() : "expected 1 to 64 letters, digits, '.', '_' or '-'";
      });
  probe->add_flag("--smartnic", o->smartnic, "This machine is a SmartNIC, not a server");
  probe->add_option("--price", o->machine.price_usd, "Its price; default: assumed, as Lovelock's")
      ->type_name("USD")
      ->check(NonNegative());
  probe->add_option("--power", o->machine.power_w, "Its power; default: assumed, as Lovelock's")
      ->type_name("W")
      ->check(NonNegative());
  probe->add_option("--network", o->machine.network_gbps, "Its network; default: assumed")
      ->type_name("GBPS")
      ->check(Positive());
  probe->add_option("--slots", o->machine.device_slots, "PCIe devices that it can carry")
      ->check(InRange(0, 1024));
  probe
      ->add_option("--core-speed", o->machine.core_speed,
                   "One core by itself over one of an IPU E2000; default: assumed 1")
      ->type_name("RATIO")
      ->check(Positive());
  probe->add_option("--out", o->file, "File for the entry")->type_name("FILE")->check(NonEmpty());
  probe->callback([o, &context] { context.action = [o, &context] { return RunProbe(*o, context.json); }; });
}

using Run = int (*)(const PlanOptions&, bool as_json);

CLI::App* AddVerb(CLI::App& plan, Context& context, const std::shared_ptr<PlanOptions>& o, const char* name,
                  const char* text, Run run) {
  CLI::App* verb = plan.add_subcommand(name, text);
  AddWorkloadOptions(*verb, *o);
  verb->callback(
      [o, run, &context] { context.action = [o, run, &context] { return run(*o, context.json); }; });
  return verb;
}

}  // namespace

void AddPlanVerbs(CLI::App& app, Context& context) {
  CLI::App* plan = app.add_subcommand("plan", "Which hardware to buy: servers, SmartNICs, how many of which");
  plan->require_subcommand(1);

  auto compared = std::make_shared<PlanOptions>();
  CLI::App* compare =
      AddVerb(*plan, context, compared, "compare",
              "Servers against SmartNICs, 1 to 8 of them per server: cost, energy, slowdown", RunCompare);
  AddOut(*compare, *compared);

  auto searched = std::make_shared<PlanOptions>();
  CLI::App* search = AddVerb(*plan, context, searched, "search",
                             "The mix of nodes of least cost or energy that meets the limits", RunSearch);
  AddLimitOptions(*search, *searched);
  AddOut(*search, *searched);
  search->add_flag("--no-sensitivity", searched->no_sensitivity,
                   "Skip the sensitivity analysis (each input changed by a tenth)");

  auto explained = std::make_shared<PlanOptions>();
  CLI::App* explain =
      AddVerb(*plan, context, explained, "explain", "Which terms make up the answer", RunExplain);
  AddLimitOptions(*explain, *explained);
  AddMixOptions(*explain, *explained);

  auto simulated = std::make_shared<PlanOptions>();
  simulated->requests = 100'000;
  CLI::App* simulate = AddVerb(*plan, context, simulated, "simulate",
                               "Run the mix through the simulator, beside the plan", RunSimulate);
  AddLimitOptions(*simulate, *simulated);
  AddMixOptions(*simulate, *simulated);
  simulate->add_option("--requests", simulated->requests, "Measured requests per run")
      ->check(InRange(uint64_t{1000}, uint64_t{1'000'000'000}))
      ->capture_default_str();
  simulate->add_option("--threads", simulated->threads, "Runs at a time; default: one per CPU")
      ->check(InRange(1, 1024));

  CLI::App* paper =
      plan->add_subcommand("paper", "Every figure of the papers behind the planner, recomputed");
  paper->callback([&context] { context.action = [&context] { return RunPaper(context.json); }; });

  AddProbe(*plan, context);
}

}  // namespace spillway::command

// SPDX-License-Identifier: Apache-2.0
#include "lab_verbs.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sched.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>

#include "base/paths.h"
#include "base/print.h"
#include "base/signals.h"
#include "command/exit_code.h"
#include "command/option_checks.h"
#include "command/output.h"
#include "lab/experiment/bed_list.h"
#include "lab/experiment/experiment.h"
#include "lab/experiment/named.h"
#include "lab/experiment/outline.h"
#include "lab/testbed/spec_reader.h"
#include "lab/testbed/testbed.h"
#include "report/file.h"
#include "report/table.h"

namespace spillway::command {
namespace {

using nlohmann::json;

int Up(const Context& context, const std::string& file, bool no_switch) {
  const auto spec = lab::LoadTestbed(file);
  if (!spec) return Complain(spec.error());
  base::InterruptGuard guard;
  auto testbed = lab::Testbed::Up(*spec, {.tied = false, .with_switch = !no_switch});
  if (!testbed) return Complain(testbed.error());
  (*testbed)->Release();
  const lab::Plan& plan = (*testbed)->plan();
  json units = json::array();
  for (const lab::UnitPlan& unit : plan.units)
    units.push_back({{"unit", unit.label}, {"address", unit.address.ToString()}});
  json services = json::array();
  for (const model::Service& service : plan.config.services)
    services.push_back({{"service", service.name}, {"vip", service.vip.ToString()}});
  if (context.json) {
    PrintJson(json{{"name", spec->name},
                   {"api", plan.api_socket},
                   {"folder", plan.folder},
                   {"units", units},
                   {"services", services}});
    return kExitOk;
  }
  for (const json& s : services)
    base::Print("service {} at {}\n", s["service"].get<std::string>(), s["vip"].get<std::string>());
  for (const json& u : units)
    base::Print("unit {} at {}\n", u["unit"].get<std::string>(), u["address"].get<std::string>());
  base::Print("api {}\nlogs {}/*.log\n", plan.api_socket, plan.folder);
  return kExitOk;
}

std::string NoTestbed(const std::string& name) {
  const std::vector<std::string> names = lab::StateNames();
  return fmt::format(
      "no testbed {} on this machine, which has {}", name,
      names.empty() ? "none: `spillway lab up FILE` creates one" : fmt::format("{}", fmt::join(names, ", ")));
}

// The places of a testbed, by its namespaces' names.
std::string Places(const lab::State& state) {
  const std::string prefix = lab::NetnsName(state.name, "");
  std::vector<std::string> places;
  for (const std::string& netns : state.namespaces)
    places.push_back(netns.starts_with(prefix) ? netns.substr(prefix.size()) : netns);
  return fmt::format("{}", fmt::join(places, ", "));
}

int Down(const Context& context, const std::string& name, bool all) {
  if (name.empty() != all)
    return Complain({ErrorCode::kBadInput, "lab down: expected a testbed's name, or --all"});
  base::InterruptGuard guard;  // half a clean-up helps nobody
  const std::vector<std::string> names = all ? lab::StateNames() : std::vector<std::string>{name};
  json down = json::array();
  for (const std::string& each : names)
    if (lab::TakeDown(each)) down.push_back(each);
  if (!all && down.empty()) return Complain({ErrorCode::kSystem, "lab down: " + NoTestbed(name)});
  if (context.json) PrintJson({{"down", down}});
  return kExitOk;
}

int List(const Context& context) {
  report::Table table({{"name", "TESTBED"}, {"state", "STATE"}, {"parts", "PARTS"}, {"dead", "ENDED"}});
  for (const std::string& name : lab::StateNames()) {
    const auto state = lab::LoadState(name);
    if (!state) continue;
    std::vector<std::string> dead;
    for (const auto& p : state->processes)
      if (!lab::IsAlive(p.id)) dead.push_back(p.label);
    table.AddRow({name, std::string(lab::IsLeftover(*state) ? "leftover" : "up"),
                  static_cast<int64_t>(state->processes.size()), fmt::format("{}", fmt::join(dead, " "))});
  }
  if (context.json)
    PrintJson(table.JsonRows());
  else
    base::Print("{}", table.Text());
  return kExitOk;
}

// In the namespace, but with this mount namespace: /sys stays the machine's, with its BPF file system.
int Exec(const std::string& name, const std::string& label, const std::vector<std::string>& words) {
  const auto failed = [](const std::string& what) {
    return Complain({ErrorCode::kSystem, "lab exec: " + what});
  };
  const auto state = lab::LoadState(name);
  if (!state) return failed(NoTestbed(name));
  const std::string path = "/run/netns/" + lab::NetnsName(name, label);
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0 && errno == ENOENT)
    return failed(fmt::format("no {} in testbed {}, which has {}", label, name, Places(*state)));
  if (fd < 0 || setns(fd, CLONE_NEWNET) != 0) return failed(fmt::format("{}: {}", path, strerror(errno)));
  std::vector<char*> argv;
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  execvp(argv[0], argv.data());
  return failed(fmt::format("{}: {}", words[0], strerror(errno)));
}

uint64_t SeedOf(const lab::Overrides& overrides) {
  return overrides.seed ? *overrides.seed : std::random_device()();
}

// Runs them and prints what came out.
int RunSpecs(const Context& context, const std::string& name, const std::vector<lab::ExperimentSpec>& specs,
             const std::string& out) {
  // Before anything is shown of a run, and before the minutes that it takes.
  if (auto may = lab::MayMakeTestbeds(); !may) return Complain(may.error());
  if (auto made = out.empty() ? Result<void>() : report::MakeFolder(out); !made)
    return Complain(made.error());
  base::InterruptGuard guard;
  base::PrintError("spillway: lab: {}\n", lab::Outline(specs));
  auto outcome = lab::RunExperiments(name, specs, out);
  if (!outcome) return base::Interrupted() ? Interrupted() : Complain(outcome.error());
  base::Print("{}", context.json ? outcome->document : outcome->text);
  return outcome->interrupted ? Interrupted("these are the rounds that were finished") : kExitOk;
}

int ComparePolicies(const Context& context, const std::string& bed, lab::Overrides overrides,
                    const std::string& out, bool quick) {
  const auto path = lab::FindBed(bed, lab::LabFolder(base::ProgramFolder()));
  if (!path) return Complain(path.error());
  auto spec = lab::LoadExperiment(*path, quick);
  if (!spec) return Complain(spec.error());
  overrides.seed = SeedOf(overrides);
  if (auto good = lab::Override(overrides, *spec); !good) return Complain(good.error());
  return RunSpecs(context, "compare." + spec->name, {*spec}, out);
}

int ListBeds(const Context& context) {
  const auto beds = lab::ListBeds(lab::LabFolder(base::ProgramFolder()));
  if (!beds) return Complain(beds.error());
  if (context.json)
    PrintJson(lab::BedTable(*beds).JsonRows());
  else
    base::Print("{}", lab::BedsText(*beds));
  return kExitOk;
}

int RunExperiments(const Context& context, const lab::Wanted& wanted, const lab::Overrides& overrides,
                   const std::string& out, bool quick) {
  const auto files = lab::FindExperiment(wanted, lab::LabFolder(base::ProgramFolder()));
  if (!files) return Complain(files.error());
  const uint64_t seed = SeedOf(overrides);
  std::vector<lab::ExperimentSpec> specs;
  for (const lab::NamedFile& file : *files) {
    auto spec = lab::LoadExperiment(file.path, quick);
    if (!spec) return Complain(spec.error());
    spec->app = file.app;
    spec->seed = seed;
    specs.push_back(std::move(*spec));
  }
  return RunSpecs(context, specs.front().app.empty() ? specs.front().name : wanted.experiment, specs, out);
}

// What the command line says of any of the verbs.
struct LabWords {
  std::string file, name, label, out;
  std::vector<std::string> words;
  lab::Wanted wanted;
  lab::Overrides overrides;
  bool all = false, no_switch = false, quick = false;
};

void AddTestbedVerbs(CLI::App* lab, const std::shared_ptr<LabWords>& o, Context& context) {
  CLI::App* up = lab->add_subcommand("up", "Create a testbed and leave it running (root)");
  up->add_option("FILE", o->file, "Lab file (YAML)")->required();
  up->add_flag("--no-switch", o->no_switch,
               "Without spillwayd and agents: units by their own addresses only");
  up->callback(
      [o, &context] { context.action = [o, &context] { return Up(context, o->file, o->no_switch); }; });

  CLI::App* down = lab->add_subcommand("down", "Remove a testbed, or what a killed run left of it (root)");
  down->add_option("NAME", o->name, "The testbed");
  down->add_flag("--all", o->all, "Every testbed");
  down->callback(
      [o, &context] { context.action = [o, &context] { return Down(context, o->name, o->all); }; });

  CLI::App* list = lab->add_subcommand("list", "List the testbeds of this machine");
  list->callback([&context] { context.action = [&context] { return List(context); }; });

  CLI::App* exec = lab->add_subcommand("exec", "Run a command in one of a testbed's namespaces (root)");
  exec->add_option("NAME", o->name, "The testbed")->required();
  exec->add_option("WHERE", o->label, "client, switch, or SERVER-UNIT such as s1-cpu")->required();
  exec->add_option("COMMAND", o->words, "After --: the command and its arguments")->required();
  exec->fallthrough(false);
  exec->callback([o, &context] { context.action = [o] { return Exec(o->name, o->label, o->words); }; });
}

void AddSeed(CLI::App* verb, const std::shared_ptr<LabWords>& o) {
  verb->add_option("--seed", o->overrides.seed,
                   "Seed of the order of policies and of arrivals; use the printed seed to repeat a run")
      ->check(InRange(uint64_t{0}, uint64_t{1} << 53));
}

void AddRunVerb(CLI::App* lab, const std::shared_ptr<LabWords>& o, Context& context) {
  CLI::App* run = lab->add_subcommand(
      "run", "Create the testbed, sweep policies over load, remove it (root, but for gpus)");
  run->add_option("EXPERIMENT", o->wanted.experiment,
                  "Lab file with an experiment (YAML), or one that comes with Spillway: fig4a, fig4b, fig5, "
                  "fig6, gpus, demo ...")
      ->required();
  run->add_option("--apps", o->wanted.apps, "Applications of fig5: dns, vgg16, knn, separated by commas")
      ->delimiter(',')
      ->type_name("APP,...");
  run->add_flag("--emulated", o->wanted.emulated, "On emulated units, which burn no CPU");
  run->add_option("--out", o->out, "Folder for report.html and report.json")
      ->type_name("DIR")
      ->check(NonEmpty());
  run->add_flag("--quick", o->quick, "Use the file's short form");
  AddSeed(run, o);
  run->callback([o, &context] {
    context.action = [o, &context] {
      if (o->wanted.experiment == "gpus") return RunGpus({"", o->out, "", o->quick}, context.json);
      return RunExperiments(context, o->wanted, o->overrides, o->out, o->quick);
    };
  });
}

void AddCompareVerb(CLI::App* lab, const std::shared_ptr<LabWords>& o, Context& context) {
  CLI::App* compare = lab->add_subcommand("compare",
                                          "Compare policies on a bed: searches for its capacity, then plays "
                                          "short slices in random order; verdicts "
                                          "by intervals (root)");
  compare->add_option("BED", o->name, "Lab file with an experiment (YAML), or a name: `spillway lab beds`")
      ->required();
  compare->add_option("--policies", o->overrides.policies, "Unit policies, or SERVER_POLICY+UNIT_POLICY")
      ->delimiter(',')
      ->type_name("POLICY,...");
  compare
      ->add_option("--loads", o->overrides.load_pct,
                   "Loads in percent of what the bed sustains under wrr, or as the file says")
      ->delimiter(',')
      ->check(InRange(0.1, 300.0))
      ->type_name("PCT,...");
  compare
      ->add_option(
          "--capacity", o->overrides.capacity_rps,
          "100 % load, in requests/s; without it, that is searched for first, which takes about 18 slices")
      ->check(InRange(1.0, 1e8))
      ->type_name("RPS");
  compare
      ->add_option("--slices", o->overrides.rounds,
                   "Slices of each policy at each load; default: the file's, or 8")
      ->check(InRange(1, 1000));
  compare
      ->add_option("--seconds", o->overrides.seconds,
                   "Seconds of load per slice; default: the file's, or 1.5")
      ->check(InRange(0.2, 3600.0));
  compare
      ->add_option("--baseline", o->overrides.baseline,
                   "The policy that the others are compared with; default: the first")
      ->type_name("NAME");
  compare->add_flag(
      "--predict", o->overrides.predict,
      "Show the simulator's p50, p99 and loss beside the measured ones, and how well they agree");
  AddSeed(compare, o);
  compare->add_option("--out", o->out, "Folder for report.html and report.json")
      ->type_name("DIR")
      ->check(NonEmpty());
  compare->add_flag("--quick", o->quick, "Use the file's short form");
  compare->callback([o, &context] {
    context.action = [o, &context] {
      return ComparePolicies(context, o->name, o->overrides, o->out, o->quick);
    };
  });
}

}  // namespace

void AddLabVerbs(CLI::App& app, Context& context) {
  auto o = std::make_shared<LabWords>();
  CLI::App* lab = app.add_subcommand("lab", "Testbeds in network namespaces, and experiments on them");
  lab->require_subcommand(1);
  lab->fallthrough();

  AddTestbedVerbs(lab, o, context);
  AddRunVerb(lab, o, context);
  AddCompareVerb(lab, o, context);
  AddPaperVerb(*lab, context);

  CLI::App* beds = lab->add_subcommand("beds", "List the beds that come with Spillway");
  beds->callback([&context] { context.action = [&context] { return ListBeds(context); }; });

  AddGpusVerb(*lab, context);
  AddKvsVerb(*lab, context);
}

}  // namespace spillway::command

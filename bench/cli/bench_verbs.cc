// SPDX-License-Identifier: Apache-2.0
#include "bench_verbs.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>

#include "base/print.h"
#include "base/signals.h"
#include "bench/cli/dispatch_verb.h"
#include "bench/cli/flood_verb.h"
#include "bench/cli/gateway_verb.h"
#include "bench/cli/sched_verb.h"
#include "bench/cli/verb_parts.h"
#include "bench/health/health_bench.h"
#include "bench/reaction/reaction_bench.h"
#include "bench/sim/sim_bench.h"
#include "bench/switch/present.h"
#include "bench/switch/rounds.h"
#include "command/exit_code.h"
#include "command/option_checks.h"
#include "command/output.h"
#include "report/file.h"
#include "report/progress.h"

namespace spillway::command {
namespace {

struct SwitchBench {
  bench::RoundOptions rounds;
  std::string folder;
  bool quick = false;
};

int BenchSwitch(SwitchBench bench, bool as_json) {
  auto& counts = bench.rounds.flow_counts;
  std::sort(counts.begin(), counts.end());
  counts.erase(std::unique(counts.begin(), counts.end()), counts.end());
  if (bench.quick) bench.rounds.rounds = std::min(bench.rounds.rounds, 2);
  if (bench.quick && counts.back() > 1'000'000) counts.pop_back();

  if (auto made = bench.folder.empty() ? Result<void>() : report::MakeFolder(bench.folder); !made)
    return Complain(made.error());
  report::Progress progress("bench switch");
  const auto results = bench::RunRounds(
      bench.rounds, [&](double fraction, const std::string& message) { progress.Update(fraction, message); });
  if (!results) return Complain(results.error());
  progress.Finish("done");
  const report::Document document = bench::MakeDocument(*results, bench.rounds.rounds);
  if (!bench.folder.empty()) {
    if (const auto written = bench::WritePage(document, bench.folder); !written)
      return Complain(written.error());
  }
  if (as_json)
    base::Print("{}", document.Dump());
  else
    base::Print("{}", bench::MakeTable(document).Text());
  return kExitOk;
}

int BenchSim(const bench::SimBenchOptions& options, bool as_json) {
  return RunAndPrint(
      "sim", as_json,
      [&](const OnBenchProgress& on_progress) -> Result<report::Document> {
        return bench::RunSimBench(options, on_progress);
      },
      [](const report::Document& document) { return bench::MakeSimTable(document).Text(); });
}

// What the command line says of the reaction bench, in words.
struct ReactionBench {
  bench::ReactionOptions options;
  std::string bed = "both";
  std::vector<std::string> health = {"passive", "active"}, faults, policies;
  bool quick = false;
};

bench::ReactionOptions OptionsOf(const ReactionBench& words) {
  bench::ReactionOptions options = words.options;
  if (words.bed != "both")
    options.beds = {words.bed == "knot" ? lab::Workload::kKnot : lab::Workload::kNginx};
  options.health.clear();
  for (const bench::Health health : {bench::Health::kPassive, bench::Health::kActive, bench::Health::kBoth})
    if (std::find(words.health.begin(), words.health.end(), bench::Word(health)) != words.health.end())
      options.health.push_back(health);
  if (!words.faults.empty()) options.faults.clear();
  for (const std::string& word : words.faults) options.faults.push_back(*bench::ParseFault(word));
  for (const std::string& word : words.policies) options.policies.push_back(*model::ParseUnitPolicy(word));
  if (!words.quick) return options;
  options.rounds = std::min(options.rounds, 2);
  if (options.policies.empty()) options.policies = {SPW_UNIT_WRR, SPW_UNIT_HEADROOM};
  return options;
}

int BenchReaction(const ReactionBench& words, bool as_json) {
  const base::InterruptGuard guard;
  return RunAndPrint("reaction", as_json, [&](const OnBenchProgress& on_progress) {
    return bench::RunReactionBench(OptionsOf(words), on_progress);
  });
}

void AddBenchReaction(CLI::App* bench, Context& context) {
  auto words = std::make_shared<ReactionBench>();
  std::vector<std::string> faults, policies;
  for (const bench::Fault fault : bench::kFaults) faults.emplace_back(bench::Word(fault));
  for (int p = 0; p < SPW_UNIT_POLICIES; p++)
    policies.push_back(model::ToString(static_cast<spw_unit_policy>(p)));
  CLI::App* verb = bench->add_subcommand(
      "reaction", "How soon a failed server is detected, and what is lost (root, knotd, nginx)");
  verb->add_option("--bed", words->bed, "Servers")
      ->check(CLI::IsMember({"knot", "nginx", "both"}))
      ->capture_default_str();
  verb->add_option("--health", words->health,
                   "What detects faults: agents (passive), active checks, or both together")
      ->delimiter(',')
      ->check(CLI::IsMember({"passive", "active", "both"}))
      ->capture_default_str();
  verb->add_option("--faults", words->faults, "Default: all")->delimiter(',')->check(CLI::IsMember(faults));
  verb->add_option("--policies", words->policies, "Unit policies; by default all")
      ->delimiter(',')
      ->check(CLI::IsMember(policies));
  verb->add_option("--rounds", words->options.rounds, "Repetitions of each row")
      ->check(InRange(1, 10'000))
      ->capture_default_str();
  verb->add_option("--period", words->options.period_ms,
                   "Milliseconds between two readings of an agent's meter")
      ->check(InRange(1, 1000))
      ->capture_default_str();
  verb->add_option("--questions", words->options.questions_per_s, "Queries per second")
      ->check(InRange(200, 3000))
      ->capture_default_str();
  verb->add_flag("--quick", words->quick, "At most two rounds; policies wrr and headroom");
  verb->callback([words, &context] {
    context.action = [words, &context] { return BenchReaction(*words, context.json); };
  });
}

void AddBenchSim(CLI::App* bench, Context& context) {
  auto options = std::make_shared<bench::SimBenchOptions>();
  CLI::App* verb = bench->add_subcommand("sim", "Simulated requests per second, per core");
  verb->add_option("--rounds", options->rounds, "Rounds over all rows")
      ->check(InRange(1, 1000))
      ->capture_default_str();
  verb->add_option("--requests", options->requests, "Requests per run")
      ->check(InRange(10'000ULL, 1'000'000'000ULL))
      ->capture_default_str();
  verb->callback([options, &context] {
    context.action = [options, &context] { return BenchSim(*options, context.json); };
  });
}

int BenchHealth(const bench::HealthBenchOptions& options, bool as_json) {
  return RunAndPrint(
      "health", as_json,
      [&](const OnBenchProgress& on_progress) { return bench::RunHealthBench(options, on_progress); },
      [](const report::Document& document) { return bench::MakeHealthTable(document).Text(); });
}

void AddBenchHealth(CLI::App* bench, Context& context) {
  auto options = std::make_shared<bench::HealthBenchOptions>();
  CLI::App* verb = bench->add_subcommand("health", "CPU time of active health checks of many units");
  verb->add_option("--rounds", options->rounds, "Rounds over all rows")
      ->check(InRange(1, 1000))
      ->capture_default_str();
  verb->add_option("--units", options->units, "Numbers of units, separated by commas")
      ->delimiter(',')
      ->check(InRange(1u, bench::kMaxHealthUnits))
      ->capture_default_str();
  verb->add_option("--interval-ms", options->interval_ms, "Milliseconds between two checks of a unit")
      ->check(InRange(10u, 60'000u))
      ->capture_default_str();
  verb->callback([options, &context] {
    context.action = [options, &context] { return BenchHealth(*options, context.json); };
  });
}

}  // namespace

void AddBenchVerbs(CLI::App& app, Context& context) {
  CLI::App* bench = app.add_subcommand("bench", "Measure on this machine; needs no daemon");
  bench->require_subcommand(1);

  AddFloodVerb(*bench, context);
  AddBenchHealth(bench, context);
  AddBenchReaction(bench, context);
  AddBenchSim(bench, context);
  auto options = std::make_shared<SwitchBench>();
  CLI::App* verb = bench->add_subcommand("switch", "Nanoseconds per packet in the data plane (root)");
  verb->add_option("--rounds", options->rounds.rounds, "Rounds over all rows")
      ->check(InRange(1, 1000))
      ->capture_default_str();
  verb->add_option("--flows", options->rounds.flow_counts, "Numbers of distinct flows, separated by commas")
      ->delimiter(',')
      ->check(InRange(1u, bench::kMaxFlows))
      ->capture_default_str();
  verb->add_option("--classes", options->rounds.classes,
                   "Kinds of packets, separated by commas; default: all")
      ->delimiter(',')
      ->check(CLI::IsMember(bench::ClassNames()));
  verb->add_option("--servers", options->rounds.bed.servers, "Servers of the pool, two units each")
      ->check(InRange(2, 2000))
      ->capture_default_str();
  AddTableEntries(*verb, options->rounds.bed.flow_table_entries, "Flow table, a power of two");
  verb->add_flag("--quick", options->quick, "At most two rounds and 1,000,000 flows");
  verb->add_option("--out", options->folder, "Also write switch.json, switch.html and switch.svg there")
      ->type_name("DIR")
      ->check(NonEmpty());
  verb->callback([options, &context] {
    context.action = [options, &context] { return BenchSwitch(*options, context.json); };
  });
  AddSchedVerb(*bench, context);
  AddDispatchVerb(*bench, context);
  AddGatewayVerb(*bench, context);
}

}  // namespace spillway::command

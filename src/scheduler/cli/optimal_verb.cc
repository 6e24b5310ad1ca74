// SPDX-License-Identifier: Apache-2.0
// spillway sched optimal.
#include "sched_verbs.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <limits>
#include <memory>
#include <optional>
#include <thread>

#include "base/print.h"
#include "base/signals.h"
#include "command/exit_code.h"
#include "command/option_checks.h"
#include "command/output.h"
#include "command/report_files.h"
#include "report/file.h"
#include "report/progress.h"
#include "scheduler/cli/lists.h"
#include "scheduler/oracle/cbc.h"
#include "scheduler/oracle/milp.h"
#include "scheduler/replay/optimal_window.h"
#include "scheduler/replay/sched_report.h"

namespace spillway::command {
namespace {

constexpr double kMostSolveSeconds = 24 * 3600;

struct OptimalOptions {
  bool check = false;
  std::string isolation = "all", gpus = "alike", lp_file;
  double solve_seconds = 120;
  scheduler::CheckOptions random;
  // --window
  Lists lists;
  std::string window, shares = "exact";
  scheduler::WindowOptions in_window;
};

scheduler::ExactSolver Solver(const OptimalOptions& o) {
  const int seconds = std::max(1, static_cast<int>(o.solve_seconds));
  return [seconds](const std::string& lp) { return scheduler::SolveWithCbc(lp, seconds); };
}

scheduler::TellDone TellTo(report::Progress& progress) {
  return [&progress](size_t done, size_t all) {
    progress.Update(static_cast<double>(done) / static_cast<double>(all), "");
  };
}

int RunRandom(OptimalOptions o, bool as_json) {
  scheduler::CheckOptions& options = o.random;
  if (o.isolation != "all") options.levels = {*scheduler::IsolationByName(o.isolation)};
  if (o.gpus == "all") options.unlike = {false, true};
  if (o.gpus == "unlike") options.unlike = {true};
  if (!o.check) options.snapshots = 1;
  if (auto there = CheckParent("--lp", o.lp_file); !there) return Complain(there.error());
  if (!o.lp_file.empty()) {
    const auto snapshot = scheduler::DrawSnapshot(options.first_seed, options.levels.front(),
                                                  options.most_jobs, options.unlike.front());
    const auto written = report::WriteFile(o.lp_file, scheduler::WriteMilp(snapshot));
    if (!written) return Complain(written.error());
  }
  const size_t total = CountSnapshots(options);
  report::Progress progress("sched optimal", report::kQuietStart);
  base::InterruptGuard guard;
  const auto checked =
      scheduler::CheckOptimal(options, Solver(o), TellTo(progress), [] { return base::Interrupted(); });
  if (!checked) {
    progress.Stop("failed");
    return Complain(checked.error());
  }
  checked->size() < total ? progress.Stop("interrupted") : progress.Finish("done");
  const report::Document document = scheduler::CheckDocument(*checked);
  base::Print("{}", as_json ? document.Dump() : scheduler::CheckText(*checked));
  if (checked->size() < total)
    return Interrupted("these are the " + Counted(checked->size(), "snapshot") + " that were done");
  // The promise: no rule broken, and on alike GPUs 95 % the same. On unlike ones ours is farther from the
  // optimum.
  for (const auto& row : document.rows())
    if (o.check && row["kind"] == "level" &&
        (row["faults"] != 0 || (row["gpus"] == "alike" && row["same_pct"] < 95.0)))
      return kExitFailed;
  return kExitOk;
}

// "FROM..TO" in seconds.
Result<void> ReadWindow(const std::string& text, scheduler::WindowOptions& options) {
  const size_t dots = text.find("..");
  const bool good = dots != std::string::npos && ReadNumber(text.substr(0, dots), options.from_s) &&
                    ReadNumber(text.substr(dots + 2), options.to_s) && options.from_s >= 0 &&
                    options.to_s > options.from_s && options.to_s <= scheduler::kMaxSeconds;
  if (good) return {};
  return Fail(ErrorCode::kBadInput,
              fmt::format("--window {}: expected FROM..TO in seconds of the list's time, TO above FROM",
                          base::Printable(text)));
}

int RunWindow(OptimalOptions o, bool as_json) {
  scheduler::WindowOptions& options = o.in_window;
  if (const auto read = ReadWindow(o.window, options); !read) return Complain(read.error());
  const auto loaded = LoadForHours(o.lists);
  if (!loaded) return Complain(loaded.error());
  if (!loaded->jobs.timed)
    return Complain({ErrorCode::kBadInput, WhyUntimed(loaded->path, loaded->jobs) + ", as --window needs"});
  options.hours.rule = *scheduler::ShareRuleByName(o.shares);
  options.hours.nodes = loaded->nodes.nodes;
  options.hours.models = loaded->nodes.models;
  report::Progress progress("sched optimal " + loaded->name, report::kQuietStart);
  base::InterruptGuard guard;
  const auto instants = scheduler::InstantsIn(loaded->jobs, options);
  if (!instants) return Complain(instants.error());
  const auto checked = scheduler::CheckInstants(*instants, options, Solver(o), o.random.threads,
                                                TellTo(progress), [] { return base::Interrupted(); });
  if (!checked) {
    progress.Stop("failed");
    return Complain(checked.error());
  }
  checked->size() < instants->size() ? progress.Stop("interrupted") : progress.Finish("done");
  if (checked->empty()) return Interrupted();
  const report::Document document = scheduler::WindowDocument(loaded->name, options, *checked);
  base::Print("{}", as_json ? document.Dump() : scheduler::WindowText(document));
  if (checked->size() < instants->size())
    return Interrupted("these are the " + Counted(checked->size(), "instant") + " that were done");
  return document.rows().back()["faults"] == 0 ? kExitOk : kExitFailed;
}

int RunOptimal(OptimalOptions o, bool as_json) {
  if (o.random.threads == 0) o.random.threads = std::max(1u, std::thread::hardware_concurrency());
  return o.window.empty() ? RunRandom(std::move(o), as_json) : RunWindow(std::move(o), as_json);
}

void AddRandomOptions(CLI::App& verb, OptimalOptions& o) {
  CLI::Option* check = verb.add_flag(
      "--check", o.check,
      "Many snapshots, which takes minutes; exit code 1 if a rule is broken, or, of alike GPUs, under "
      "95 % of a level are the same");
  verb.add_option("--snapshots", o.random.snapshots, "Of each isolation level, with --check")
      ->needs(check)
      ->check(InRange(1, 1'000'000))
      ->capture_default_str();
  verb.add_option("--jobs", o.random.most_jobs, "Most jobs in a snapshot")
      ->check(InRange(2, 15))
      ->capture_default_str();
  verb.add_option("--isolation", o.isolation, "One level instead of all")
      ->check(CLI::IsMember({"all", "none", "fraction", "gpu"}));
  verb.add_option(
          "--gpus", o.gpus,
          "alike: one to a node; unlike: of three models, one to four to a node, some jobs for whole ones")
      ->check(CLI::IsMember({"all", "alike", "unlike"}))
      ->capture_default_str();
  verb.add_option("--seed", o.random.first_seed, "The first snapshot")
      ->check(InRange(uint64_t{0}, std::numeric_limits<uint64_t>::max()))
      ->capture_default_str();
  verb.add_option("--lp", o.lp_file, "Also write the first snapshot's program there, in LP format")
      ->type_name("FILE")
      ->check(NonEmpty());
}

void AddWindowOptions(CLI::App& verb, OptimalOptions& o) {
  CLI::Option* window =
      verb.add_option("--window", o.window,
                      "FROM..TO, seconds of a list's time: instants of it instead of random snapshots")
          ->check(NonEmpty());
  verb.add_option("--instants", o.in_window.instants, "Maximum number of instants to check in the window")
      ->check(InRange(1, 100'000))
      ->capture_default_str();
  AddLists(verb, o.lists);
  AddCluster(verb, o.lists);
  verb.add_option("--shares", o.shares, "Exact milli, or MIG slices by compute or memory")
      ->check(CLI::IsMember({"exact", "compute", "memory"}))
      ->capture_default_str();
  verb.add_option("--busy", o.in_window.hours.busy, "Arrival rate multiplier")
      ->check(InRange(1, 1'000'000))
      ->capture_default_str();
  verb.add_option("--busy-from", o.in_window.hours.busy_from,
                  "Second of the list's time at which --busy starts")
      ->needs(verb.get_option("--busy"))
      ->check(InRange(int64_t{0}, scheduler::kMaxSeconds))
      ->capture_default_str();
  verb.add_option("--move-price", o.in_window.hours.moves.move_price,
                  "Cost of a migration relative to one GPU switched off")
      ->check(InRange(0.01, 100.0))
      ->capture_default_str();
  for (const char* option : {"--instants", "--list", "--data", "--nodes", "--cluster", "--shares", "--busy",
                             "--busy-from", "--move-price"})
    verb.get_option(option)->needs(window);
  for (const char* option : {"--check", "--snapshots", "--jobs", "--isolation", "--gpus", "--seed", "--lp"})
    window->excludes(verb.get_option(option));
  verb.get_option("--nodes")->needs(verb.get_option("--cluster"));
}

}  // namespace

void AddOptimal(CLI::App& sched, Context& context) {
  auto o = std::make_shared<OptimalOptions>();
  CLI::App* verb =
      sched.add_subcommand("optimal", "The online heuristic beside the optimum (by cbc) on small cases");
  AddRandomOptions(*verb, *o);
  o->random.threads = 0;
  verb->add_option("--threads", o->random.threads, "Solvers at a time; default: one per CPU")
      ->check(InRange(1, 1024));
  AddSeconds(*verb, "--solve-time", o->solve_seconds, kMostSolveSeconds,
             "CPU time that cbc may take for one; what it does not solve in that is counted");
  AddWindowOptions(*verb, *o);
  verb->callback([o, &context] { context.action = [o, &context] { return RunOptimal(*o, context.json); }; });
}

}  // namespace spillway::command

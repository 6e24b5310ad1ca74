// SPDX-License-Identifier: Apache-2.0
#include "sched_verb.h"

#include <CLI/CLI.hpp>
#include <memory>

#include "base/print.h"
#include "bench/sched/sched_bench.h"
#include "command/exit_code.h"
#include "command/option_checks.h"
#include "command/output.h"
#include "report/progress.h"
#include "report/table.h"
#include "scheduler/cli/lists.h"

namespace spillway::command {
namespace {

struct BenchOptions {
  Lists lists;
  bench::SchedBenchOptions bench;
};

int BenchSched(const BenchOptions& o, bool as_json) {
  const auto loaded = Load(o.lists, true);
  if (!loaded) return Complain(loaded.error());
  report::Progress progress("bench sched", report::kQuietStart);
  const report::Document document = bench::RunSchedBench(
      loaded->nodes, loaded->jobs, o.bench,
      [&](double share, const std::string& message) { progress.Update(share, message); });
  progress.Finish("done");
  base::Print("{}", as_json ? document.Dump() : report::Table::FromRows(document.rows()).Text());
  return kExitOk;
}

}  // namespace

void AddSchedVerb(CLI::App& bench, Context& context) {
  auto o = std::make_shared<BenchOptions>();
  CLI::App* verb = bench.add_subcommand("sched", "Microseconds per decision of the scheduler of GPU slices");
  AddLists(*verb, o->lists);
  verb->add_option("--rounds", o->bench.rounds, "Rounds")->check(InRange(1, 1000))->capture_default_str();
  verb->add_option("--decisions", o->bench.decisions, "Per round, when jobs come and go")
      ->check(InRange(1, 100'000'000))
      ->capture_default_str();
  verb->callback([o, &context] { context.action = [o, &context] { return BenchSched(*o, context.json); }; });
}

}  // namespace spillway::command

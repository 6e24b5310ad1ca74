// SPDX-License-Identifier: Apache-2.0
// spillway lab kvs.
#include "lab_verbs.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "base/print.h"
#include "command/exit_code.h"
#include "command/option_checks.h"
#include "command/output.h"
#include "lab/kvs/kvs_experiment.h"
#include "report/progress.h"

namespace spillway::command {
namespace {

int Kvs(const lab::KvsOptions& options, bool as_json) {
  report::Progress progress("lab kvs");
  const auto document = lab::RunKvs(
      options, [&](double fraction, const std::string& message) { progress.Update(fraction, message); });
  if (!document) return Complain(document.error());
  progress.Finish("done");
  base::Print("{}", as_json ? document->Dump() : lab::KvsText(*document));
  return kExitOk;
}

}  // namespace

void AddKvsVerb(CLI::App& lab_app, Context& context) {
  auto options = std::make_shared<lab::KvsOptions>();
  options->namespaces = geteuid() == 0;
  CLI::App* verb = lab_app.add_subcommand("kvs", "A key-value server behind rss, steal, dispatch and remote");
  verb->add_option("--workers", options->workers, "Worker threads")
      ->check(InRange(1, 32))
      ->capture_default_str();
  verb->add_option("--rounds", options->rounds, "Rounds over all runs")
      ->check(InRange(1, 100))
      ->capture_default_str();
  verb->add_option_function<int>(
          "--ms", [options](int ms) { options->duration = std::chrono::milliseconds(ms); },
          "Length of a run in milliseconds (1000)")
      ->check(InRange(50, 60'000));
  verb->add_option("--scan", options->scan_pct, "Shares of SCANs in percent, separated by commas")
      ->delimiter(',')
      ->check(InRange(0, 100))
      ->capture_default_str();
  verb->add_option("--load", options->load_pct, "Loads in percent of the capacity, ascending")
      ->delimiter(',')
      ->check(InRange(1, 200))
      ->capture_default_str();
  verb->add_option("--dispatch-us", options->dispatch_us, "The model's cost of dispatch, per request")
      ->check(InRange(0.0, 1000.0))
      ->capture_default_str();
  verb->add_option("--steal-us", options->steal_us, "The model's cost of stealing, per stolen request")
      ->check(InRange(0.0, 1000.0))
      ->capture_default_str();
  verb->add_option("--repeat", options->repeat, "Hash look-ups per GET, to set its cost")
      ->check(InRange(1u, 10'000'000u))
      ->capture_default_str();
  verb->add_flag_callback(
      "--loopback", [options] { options->namespaces = false; },
      "All on loopback; otherwise (as root) client, host and NIC each get their own namespace");
  auto* model_only = verb->add_flag_callback(
      "--model-only", [options] { options->measure = false; }, "Only the model; nothing is measured");
  auto* measure_only = verb->add_flag_callback(
      "--measure-only", [options] { options->model = false; }, "Only what is measured here");
  model_only->excludes(measure_only);
  verb->add_flag("--quick", options->quick, "One round of short runs, one mix");
  verb->callback(
      [options, &context] { context.action = [options, &context] { return Kvs(*options, context.json); }; });
}

}  // namespace spillway::command

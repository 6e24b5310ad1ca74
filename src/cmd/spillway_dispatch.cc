// SPDX-License-Identifier: Apache-2.0
// spillway-dispatch: the dispatcher's benchmark and its key-value lab, as `spillway bench dispatch` and
// `spillway lab kvs` (dispatch_verbs.h says why it is a program).
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "bench/dispatch/dispatch_bench.h"
#include "cmd/client_output.h"
#include "cmd/context.h"
#include "cmd/exit_code.h"
#include "cmd/json_flag.h"
#include "cmd/kvs_verb.h"
#include "cmd/parse_arguments.h"
#include "cmd/typed_name.h"
#include "report/progress.h"

namespace spillway::cmd {
namespace {

int BenchDispatch(const bench::DispatchBenchOptions& options, bool as_json) {
  report::Progress progress("bench dispatch");
  const auto document = bench::RunDispatchBench(
      options, [&](double fraction, const std::string& message) { progress.Update(fraction, message); });
  if (!document) return Complain(document.error());
  progress.Finish("done");
  fmt::print("{}", as_json ? document->Dump() : bench::DispatchText(*document));
  return kExitOk;
}

void AddBenchVerb(CLI::App& app, Context& context) {
  auto options = std::make_shared<bench::DispatchBenchOptions>();
  CLI::App* verb =
      app.add_subcommand("bench", "Events a second through the dispatcher, its latency, its peers");
  verb->add_option("--rounds", options->rounds, "Rounds over all rows")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  verb->add_option_function<int>(
          "--ms", [options](int ms) { options->duration = std::chrono::milliseconds(ms); },
          "Length of one measurement in milliseconds (100)")
      ->check(CLI::Range(5, 100'000));
  verb->add_flag("--quick", options->quick, "At most two rounds, a tenth of the time");
  verb->add_option("--only", options->only,
                   "Rows that begin so: native,event_dsw,\"rte_ring spsc\",burst,scaling")
      ->delimiter(',');
  const auto power = [verb](const char* name, double& value, const char* help) {
    verb->add_option(name, value, help)->check(CLI::PositiveNumber)->capture_default_str();
  };
  power("--host-watts", options->power.host_watts, "The energy row's host");
  power("--host-cores", options->power.host_cores, "Its cores");
  power("--nic-watts", options->power.nic_watts, "The energy row's SmartNIC");
  power("--nic-throughput", options->power.nic_throughput, "What all its cores do, the host's doing 1");
  verb->callback([options, &context] {
    context.action = [options, &context] { return BenchDispatch(*options, context.json); };
  });
}

int Main(int argc, char** argv) {
  Context context;
  CLI::App app("The dispatcher, measured.", "spillway-dispatch");
  app.add_flag("--json", context.json, kJsonHelp);
  app.require_subcommand(1);
  app.fallthrough();
  app.footer(kExitCodes);
  AddBenchVerb(app, context);
  AddKvsVerb(app, context);
  ShowJsonFlag(app, context.json);
  const std::string typed = TypedName(argc, argv, "");
  for (const char* verb : {"bench", "kvs"})
    NameAsTyped(*app.get_subcommand(verb), typed.empty() ? std::string("spillway-dispatch ") + verb : typed);
  app.failure_message([](const CLI::App*, const CLI::Error& e) { return UsageError("spillway", e.what()); });
  try {
    ParseArguments(app, argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? kExitOk : kExitBadInput;
  }
  return context.action();
}

}  // namespace
}  // namespace spillway::cmd

int main(int argc, char** argv) { return spillway::cmd::Main(argc, argv); }

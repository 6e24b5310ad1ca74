// SPDX-License-Identifier: Apache-2.0
#include "dispatch_verb.h"

#include <CLI/CLI.hpp>
#include <memory>

#include "bench/cli/verb_parts.h"
#include "bench/dispatch/dispatch_bench.h"
#include "bench/dispatch/dispatch_text.h"
#include "command/option_checks.h"

namespace spillway::command {
namespace {

int BenchDispatch(const bench::DispatchBenchOptions& options, bool as_json) {
  return RunAndPrint(
      "dispatch", as_json,
      [&](const OnBenchProgress& on_progress) { return bench::RunDispatchBench(options, on_progress); },
      bench::DispatchText);
}

}  // namespace

void AddDispatchVerb(CLI::App& bench, Context& context) {
  auto options = std::make_shared<bench::DispatchBenchOptions>();
  CLI::App* verb =
      bench.add_subcommand("dispatch", "Events per second through the dispatcher, its latency, its peers");
  verb->add_option("--rounds", options->rounds, "Rounds over all rows")
      ->check(InRange(1, 1000))
      ->capture_default_str();
  verb->add_option_function<int>(
          "--ms", [options](int ms) { options->duration = std::chrono::milliseconds(ms); },
          "Length of one measurement in milliseconds (100)")
      ->check(InRange(5, 100'000));
  verb->add_flag("--quick", options->quick, "At most two rounds, a tenth of the time");
  verb->add_option("--only", options->only,
                   "Rows whose names begin with: native,event_dsw,\"rte_ring spsc\",burst,scaling")
      ->delimiter(',');
  const auto power = [verb](const char* name, double& value, const char* help) {
    verb->add_option(name, value, help)->check(Positive())->capture_default_str();
  };
  power("--host-watts", options->power.host_watts, "Power of the host in the energy row");
  power("--host-cores", options->power.host_cores, "Cores of the host in the energy row");
  power("--nic-watts", options->power.nic_watts, "Power of the SmartNIC in the energy row");
  power("--nic-throughput", options->power.nic_throughput,
        "Throughput of all the SmartNIC's cores, relative to the host's");
  verb->callback([options, &context] {
    context.action = [options, &context] { return BenchDispatch(*options, context.json); };
  });
}

}  // namespace spillway::command

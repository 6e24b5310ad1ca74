// SPDX-License-Identifier: Apache-2.0
#include "flood_verb.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>

#include "base/signals.h"
#include "bench/cli/verb_parts.h"
#include "bench/flood/flood_bench.h"
#include "command/option_checks.h"

namespace spillway::command {
namespace {

struct FloodWords {
  bench::FloodBenchOptions options;
  std::string bed = "both", server_policy;
  std::vector<std::string> attacks, policies;
  bool quick = false;
};

bench::FloodBenchOptions OptionsOf(const FloodWords& words) {
  bench::FloodBenchOptions options = words.options;
  if (words.bed != "both")
    options.beds = {words.bed == "packets" ? bench::FloodBed::kPackets : bench::FloodBed::kConnections};
  if (!words.attacks.empty()) {
    options.attacks.clear();
    for (const bench::Attack attack : bench::kAttacks)
      if (std::ranges::find(words.attacks, bench::Word(attack)) != words.attacks.end())
        options.attacks.push_back(attack);
  }
  for (const std::string& word : words.policies) options.policies.push_back(*model::ParseUnitPolicy(word));
  options.server_policy = *model::ParseServerPolicy(words.server_policy);
  if (!words.quick) return options;
  options.table_times = std::min(options.table_times, 2u);
  if (options.policies.empty()) options.policies = {SPW_UNIT_HEADROOM};
  return options;
}

int BenchFlood(const FloodWords& words, bool as_json) {
  const base::InterruptGuard guard;
  return RunAndPrint("flood", as_json, [&](const OnBenchProgress& on_progress) {
    return bench::RunFloodBench(OptionsOf(words), on_progress);
  });
}

}  // namespace

void AddFloodVerb(CLI::App& bench, Context& context) {
  auto words = std::make_shared<FloodWords>();
  words->server_policy = model::ToString(words->options.server_policy);
  std::vector<std::string> attacks, policies, server_policies;
  for (const bench::Attack attack : bench::kAttacks) attacks.emplace_back(bench::Word(attack));
  for (int p = 0; p < SPW_UNIT_POLICIES; p++)
    policies.push_back(model::ToString(static_cast<spw_unit_policy>(p)));
  for (int p = 0; p < SPW_SERVER_POLICIES; p++)
    server_policies.push_back(model::ToString(static_cast<spw_server_policy>(p)));
  CLI::App* verb =
      bench.add_subcommand("flood", "Connections that move or fail to open during a packet flood (root)");
  verb->add_option("--bed", words->bed, "The data plane packet by packet, or real connections")
      ->check(CLI::IsMember({"packets", "connections", "both"}))
      ->capture_default_str();
  verb->add_option("--attacks", words->attacks, "Default: all")
      ->delimiter(',')
      ->check(CLI::IsMember(attacks));
  verb->add_option("--policies", words->policies,
                   "Unit policies; by default all but host-only of packets, headroom of connections")
      ->delimiter(',')
      ->check(CLI::IsMember(policies));
  verb->add_option("--server-policy", words->server_policy, "Server policy of the flooded service")
      ->check(CLI::IsMember(server_policies))
      ->capture_default_str();
  verb->add_option("--table-times", words->options.table_times,
                   "Length of a flood, as a multiple of the flow table's entries")
      ->check(InRange(1u, 1000u))
      ->capture_default_str();
  AddTableEntries(*verb, words->options.flow_table_entries,
                  "Flow table of the data plane that is fed packet by packet, a power of two");
  verb->add_option("--packet-rates", words->options.packet_rates,
                   "Packets per second, on a simulated clock, where packets are fed one by one")
      ->delimiter(',')
      ->check(InRange(100u, 10'000'000u))
      ->capture_default_str();
  verb->add_option("--rate", words->options.connection_rate,
                   "Packets per second of a flood beside real connections, if the machine can send as many")
      ->check(InRange(100u, 10'000'000u))
      ->capture_default_str();
  verb->add_flag("--quick", words->quick, "Two tables at most, policy headroom");
  verb->callback(
      [words, &context] { context.action = [words, &context] { return BenchFlood(*words, context.json); }; });
}

}  // namespace spillway::command

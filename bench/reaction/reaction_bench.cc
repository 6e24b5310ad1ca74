// SPDX-License-Identifier: Apache-2.0
#include "bench/reaction/reaction_bench.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "bench/reaction/rounds.h"

namespace spillway::bench {
namespace {

using nlohmann::ordered_json;

// What is played on one bed.
struct Stage {
  BedSpec bed;
  std::vector<Fault> faults;
  std::vector<spw_unit_policy> policies;
};

std::vector<Stage> StagesOf(const ReactionOptions& options) {
  std::vector<spw_unit_policy> policies = options.policies;
  for (int p = 0; options.policies.empty() && p < SPW_UNIT_POLICIES; p++)
    policies.push_back(static_cast<spw_unit_policy>(p));
  std::vector<Stage> stages;
  for (const lab::Workload server : options.beds)
    for (const Health health : options.health)
      // A unit policy can avoid a slow unit only where the server has another one.
      for (const bool one_server : {false, true}) {
        Stage stage{{server, health, one_server, options.period_ms}, {}, policies};
        for (const Fault fault : options.faults)
          if ((fault == Fault::kUnitSlow) == one_server &&
              (fault != Fault::kAgentKilled || health != Health::kActive))
            stage.faults.push_back(fault);
        if (!stage.faults.empty()) stages.push_back(std::move(stage));
      }
  return stages;
}

double SecondsOf(const Stage& stage, Fault fault) {
  return std::chrono::duration<double>(LengthOf(stage.bed.health, fault)).count();
}

void AddRatios(const ReactionOptions& options, report::Document& document) {
  const auto median = [&](lab::Workload bed, Health health, Fault fault) -> double {
    for (const ordered_json& row : document.rows())
      if (row["bed"] == Word(bed) && row["health"] == Word(health) && row["fault"] == Word(fault) &&
          row["policy"] == model::ToString(SPW_UNIT_WRR) && row["detect_ms_p50"].is_number())
        return row["detect_ms_p50"];
    return 0;
  };
  for (const lab::Workload bed : options.beds)
    for (const Fault fault : options.faults) {
      const double passive = median(bed, Health::kPassive, fault),
                   active = median(bed, Health::kActive, fault);
      if (passive > 0 && active > 0)
        document.SetRatio(fmt::format("{}_{}_active_over_passive", Word(bed), Word(fault)), active / passive);
    }
}

}  // namespace

Result<report::Document> RunReactionBench(
    const ReactionOptions& options, const std::function<void(double, const std::string&)>& on_progress) {
  const std::vector<Stage> stages = StagesOf(options);
  if (stages.empty()) return Fail(ErrorCode::kBadInput, "--faults: expected one that needs no agents");
  double total_s = 0, done_s = 0;
  for (const Stage& stage : stages)
    for (const Fault fault : stage.faults)
      total_s += SecondsOf(stage, fault) * static_cast<double>(stage.policies.size()) * options.rounds;

  report::Document document("reaction");
  document.SetRounds(options.rounds);
  for (const Stage& stage : stages) {
    const auto bed = ReactionBed::Up(stage.bed);
    if (!bed) return tl::make_unexpected(bed.error());
    for (const Fault fault : stage.faults)
      for (const spw_unit_policy policy : stage.policies) {
        if (auto balanced = (*bed)->Balance(policy); !balanced) return tl::make_unexpected(balanced.error());
        const std::string message = fmt::format("{}, {}, {}, {}", Word(stage.bed.server),
                                                Word(stage.bed.health), Word(fault), model::ToString(policy));
        const auto on_round = [&] {
          done_s += SecondsOf(stage, fault);
          on_progress(done_s / total_s, message);
        };
        on_progress(done_s / total_s, message);
        const auto played = PlayRounds(**bed, fault, options.rounds, options.questions_per_s, on_round);
        if (!played) return tl::make_unexpected(played.error());
        document.AddRow(MakeRow(stage.bed, fault, policy, *played));
      }
  }
  AddRatios(options, document);
  return document;
}

}  // namespace spillway::bench

// SPDX-License-Identifier: Apache-2.0
#include "planner/cli/plan_input.h"

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "command/option_checks.h"
#include "planner/catalogue_reader.h"
#include "planner/compare.h"
#include "planner/workload_reader.h"

namespace spillway::command {
void AddWorkloadOptions(CLI::App& verb, PlanOptions& o) {
  verb.add_option("WORKLOAD", o.file, "Workload file (YAML), see docs/planner.md; - is stdin")->required();
  verb.add_option("--catalogue", o.catalogues, "Catalogue file to add to the shipped one; may be repeated")
      ->type_name("FILE")
      ->expected(1)
      ->take_all();
  verb.add_option("--model", o.model, "One of the workload's models, instead of the file's")
      ->type_name("NAME");
}

void AddLimitOptions(CLI::App& verb, PlanOptions& o) {
  verb.add_option("--slo", o.slowdown, "Execution time over the baseline's, at most; instead of the file's")
      ->type_name("SLOWDOWN")
      ->check(Positive());
  verb.add_option("--max-cost", o.cost_usd, "Cost at most")->type_name("USD")->check(Positive());
  verb.add_option("--max-power", o.power_w, "Power at most")->type_name("W")->check(Positive());
  verb.add_option("--objective", o.objective, "What to minimise: cost or energy")
      ->check(CLI::IsMember({"cost", "energy"}))
      ->capture_default_str();
}

void AddMixOptions(CLI::App& verb, PlanOptions& o) {
  verb.add_option("--phi", o.phi, "Replace every server by this many SmartNICs, instead of searching")
      ->check(InRange(1.0, 1000.0));
}

Result<planner::PlanInput> ReadPlanInput(const PlanOptions& o) {
  std::vector<planner::Catalogue> more;
  for (const std::string& file : o.catalogues) {
    auto catalogue = planner::LoadCatalogue(file);
    if (!catalogue) return tl::make_unexpected(catalogue.error());
    more.push_back(std::move(*catalogue));
  }
  auto input = planner::LoadWorkload(o.file, more);
  if (!input) return input;
  planner::Workload& workload = input->workload;
  if (!o.model.empty() && !planner::UseModel(workload, o.model)) {
    std::string names;
    for (const auto& model : workload.models) names += (names.empty() ? "" : ", ") + model.name;
    return Fail(ErrorCode::kBadInput, fmt::format("--model: expected one of {}'s models ({}), got \"{}\"",
                                                  o.file, names.empty() ? "it has none" : names, o.model));
  }
  if (o.slowdown) workload.limits.slowdown = *o.slowdown;
  if (o.cost_usd) workload.limits.cost_usd = o.cost_usd;
  if (o.power_w) workload.limits.power_w = o.power_w;
  return input;
}

Result<void> CheckComparable(const planner::PlanInput& input, const PlanOptions& o) {
  const std::string missing = planner::MissingYardstick(input);
  if (missing.empty()) return {};
  return Fail(ErrorCode::kBadInput,
              fmt::format("{}: plan.compare.node: expected a node whose throughput has yardstick {}, got {}",
                          o.file, missing, input.catalogue.nodes[input.workload.compare_node].name));
}

Result<planner::Mix> ChooseMix(const planner::ClusterModel& model, const PlanOptions& o) {
  if (o.phi > 0) {
    if (auto comparable = CheckComparable(model.input(), o); !comparable)
      return tl::make_unexpected(comparable.error());
    return planner::ReplaceServers(model.input().workload, o.phi);
  }
  planner::Question question;
  question.objective = o.Objective();
  const planner::Answer answer = planner::Search(model, question);
  if (!answer.best)
    return Fail(
        ErrorCode::kConflict,
        fmt::format("no mix meets every limit: `spillway plan search {}` says which stands in the way",
                    o.file));
  return answer.best->mix;
}

}  // namespace spillway::command

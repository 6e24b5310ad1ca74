// SPDX-License-Identifier: Apache-2.0
#include "planner/explain_report.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "planner/price_ratio.h"
#include "planner/search_report.h"
#include "report/table.h"

namespace spillway::planner {
namespace {

struct Term {
  const char* part;
  const char* name;
  double baseline, plan;
  const char* formula;
};

std::vector<Term> TermsOf(const Evaluation& before, const Evaluation& now) {
  return {
      {"cost_usd", "nodes", before.nodes_usd, now.nodes_usd, "nodes x price"},
      {"cost_usd", "devices", before.devices_usd, now.devices_usd, "devices x price"},
      {"cost_usd", "fabric", before.fabric_usd, now.fabric_usd,
       "nodes x port Gb/s x (edge + spine / oversubscription)"},
      {"power_w", "nodes", before.nodes_w, now.nodes_w, "nodes x power"},
      {"power_w", "devices", before.devices_w, now.devices_w, "devices x power"},
      {"power_w", "fabric", before.fabric_w, now.fabric_w, "as its cost"},
      {"time", "cpu", before.time.cpu, now.time.cpu, "share x baseline throughput / throughput"},
      {"time", "shuffle", before.time.shuffle, now.time.shuffle,
       "share x baseline network / network; per node min(NIC, port / oversubscription)"},
      {"time", "storage", before.time.storage, now.time.storage,
       "share x baseline / now, each the narrowest of clients, storage nodes, drives"},
      {"time", "accelerator", before.time.accelerator, now.time.accelerator,
       "share x baseline accelerators / accelerators"},
      {"time", "stall", before.time.stall, now.time.stall,
       "share x baseline network / network x traffic growth; with overlap only what computing does not hide"},
      {"time", "slowdown", before.slowdown, now.slowdown, "sum of the parts"}};
}

std::string ModelsText(const PlanInput& input) {
  const Workload& w = input.workload;
  const Group* group = w.Baseline(NodeKind::kAccelerator);
  if (group == nullptr || w.checkpoint.model_gb_per_accelerator == 0) return "";
  const Node& nic = input.catalogue.nodes[w.compare_node];
  const double memory_gb = nic.memory_gb * w.limits.memory_share;
  report::Table table({{"model", "model"},
                       {"gb", "GB per accelerator", 2},
                       {"peak_gb", "peak of 4 [GB]", 1},
                       {"peak_streaming_gb", "streamed [GB]", 1},
                       {"fit", "accelerators that fit"},
                       {"fit_streaming", "streamed"}});
  constexpr int kOnAHost = 4, kMost = 64;
  std::vector<TrainedModel> models = w.models;
  if (models.empty())
    models.push_back({w.name, w.checkpoint.model_gb_per_accelerator, w.memory.runtime_gb, w.host_peak});
  for (const TrainedModel& model : models) {
    Checkpoint whole = w.checkpoint;
    whole.model_gb_per_accelerator = model.gb_per_accelerator;
    whole.streaming = false;
    Checkpoint streamed = whole;
    streamed.streaming = true;
    const NodeMemory memory{w.memory.kernel_gb, model.runtime_gb, 0};
    const auto fit = [&](const Checkpoint& c) -> report::Cell {
      const int most = AcceleratorsThatFit(memory, c, 1, memory_gb, kMost);
      return most == kMost ? report::Cell("any") : report::Cell(static_cast<std::int64_t>(most));
    };
    table.AddRow({model.name, model.gb_per_accelerator, AcceleratorMemoryGb(memory, whole, 1, kOnAHost),
                  AcceleratorMemoryGb(memory, streamed, 1, kOnAHost), fit(whole), fit(streamed)});
  }
  return fmt::format("\nmemory of one {} of {:g} GB, of which {:g} % may be used, by model\n{}", nic.name,
                     nic.memory_gb, 100 * w.limits.memory_share, table.Text());
}

}  // namespace

std::string ExplainText(const ClusterModel& model, const Mix& mix) {
  const PlanInput& input = model.input();
  const Evaluation before = model.Evaluate(input.workload.baseline), now = model.Evaluate(mix);
  std::string text =
      fmt::format("{}\nbaseline: {}\nplan:     {}\n\n", input.workload.name,
                  Describe(input.catalogue, input.workload.baseline), Describe(input.catalogue, mix));
  report::Table table({{"part", "part"},
                       {"term", "term"},
                       {"baseline", "baseline"},
                       {"plan", "plan"},
                       {"formula", "formula"}});
  for (const Term& term : TermsOf(before, now))
    if (term.baseline != 0 || term.plan != 0)
      table.AddRow({term.part, term.name, term.baseline, term.plan, term.formula});
  text += table.Text();
  text += fmt::format("\ncost ratio {:.3f}, energy ratio {:.3f} = baseline W / (slowdown x plan W)\n",
                      before.CostUsd() / now.CostUsd(), before.Energy() / now.Energy());
  text += "\nlimits of the plan\n";
  for (const Check& check : now.checks)
    text += fmt::format("  {} {}\n", check.Ratio() <= 1 + 1e-9 ? "ok  " : "over", Spell(check));
  const double slower = FabricMayBeSlowerBy(now.slowdown);
  text += fmt::format(
      "\nfabric: to move the baseline's bytes in {:.3f} of its time, on average, it {} be {:.0f} % {}\n",
      now.slowdown, slower >= 0 ? "may" : "must", 100 * (slower >= 0 ? slower : -slower),
      slower >= 0 ? "slower" : "faster");
  return text + ModelsText(input);
}

nlohmann::ordered_json ExplainRows(const ClusterModel& model, const Mix& mix) {
  const Evaluation before = model.Evaluate(model.input().workload.baseline), now = model.Evaluate(mix);
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const Term& term : TermsOf(before, now))
    rows.push_back({{"part", term.part},
                    {"term", term.name},
                    {"baseline", term.baseline},
                    {"plan", term.plan},
                    {"formula", term.formula}});
  for (const Check& check : now.checks)
    rows.push_back({{"part", "limit"},
                    {"term", ToString(check.limit)},
                    {"baseline", nullptr},
                    {"plan", check.value},
                    {"formula", Spell(check)}});
  return rows;
}

}  // namespace spillway::planner

// SPDX-License-Identifier: Apache-2.0
#include "scheduler/replay/sched_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "report/percentile.h"
#include "scheduler/replay/reports.h"

namespace spillway::scheduler {
namespace {

using nlohmann::ordered_json;

const char* GpusWord(bool unlike) { return unlike ? "unlike" : "alike"; }

void AddLevel(report::Document& document, const std::vector<CheckedSnapshot>& checked, Isolation level,
              bool unlike) {
  std::vector<double> ours_ms, solver_ms;
  int all = 0, same = 0, faults = 0, late = 0;
  double worst = 0;
  for (const CheckedSnapshot& one : checked) {
    if (one.isolation != level || one.unlike != unlike) continue;
    ++all;
    same += one.Same() ? 1 : 0;
    faults += one.fault.empty() ? 0 : 1;
    late += one.solved ? 0 : 1;
    worst = std::max(worst, one.GapPct());
    ours_ms.push_back(one.ours_ms);
    solver_ms.push_back(one.solver_ms);
  }
  if (all == 0) return;
  const double pct = 100.0 * same / all;
  document.AddRow({{"kind", "level"},
                   {"gpus", GpusWord(unlike)},
                   {"isolation", ToString(level)},
                   {"snapshots", all},
                   {"same", same},
                   {"same_pct", Rounded(pct, 100)},
                   {"faults", faults},
                   {"not_in_time", late},
                   {"worst_gap_pct", Rounded(worst, 100)},
                   {"ours_median_ms", report::Median(ours_ms)},
                   {"cbc_median_ms", report::Median(solver_ms)}});
  document.SetRatio(fmt::format("same_{}{}", ToString(level), unlike ? "_unlike" : ""), pct / 100);
}

ordered_json NullUnless(bool known, double value) {
  return known ? ordered_json(value) : ordered_json(nullptr);
}

// The MIG slice that the job has where GPUs are divided; none: it has none.
std::optional<Profile> SliceNeeded(const Cluster& cluster, const Job& job) {
  const auto& models = cluster.models();
  const bool divided = cluster.rules().isolation == Isolation::kFraction && job.Fractional() &&
                       std::any_of(models.begin(), models.end(), [](const GpuModel& one) { return one.mig; });
  return divided ? std::optional(SliceOf(job, cluster.rules().slice_rule)) : std::nullopt;
}

// "room on a GPU", in the words of what the job asks for.
std::string RoomText(const Cluster& cluster, const Job& job) {
  if (const auto slice = SliceNeeded(cluster, job))
    return fmt::format("room for a slice {}, or an idle GPU without MIG", ShapeOf(*slice).name);
  if (job.Fractional()) return fmt::format("{} milli left of a GPU", job.milli);
  int most = 0;
  for (const Node& node : cluster.nodes()) most = std::max<int>(most, node.gpus);
  return job.gpus == 1 ? "an idle GPU"
                       : fmt::format("{} idle GPUs at once, where no node has more than {}", job.gpus, most);
}

// "; others lack CPU (2 nodes), an idle GPU (1 node)", or nothing.
std::string LackText(const Cluster& cluster, const Job& job, const Explanation& why) {
  const std::pair<std::string, int> lacks[] = {{"GPUs of the model", why.refused.model},
                                               {"CPU", why.refused.cpu},
                                               {"memory", why.refused.memory},
                                               {RoomText(cluster, job), why.refused.gpu},
                                               {"room that no other tenant has", why.refused.tenant}};
  std::string text;
  for (const auto& [what, nodes] : lacks)
    if (nodes > 0)
      text += fmt::format("{}{} ({} node{})",
                          !text.empty()      ? ", "
                          : why.fitting == 0 ? "; they lack "
                                             : "; others lack ",
                          what, nodes, nodes == 1 ? "" : "s");
  return text;
}

// What a share is where MIG divides GPUs: which profile was counted, and by which rule.
std::string ProfileText(const Cluster& cluster, const Job& job) {
  const auto slice = SliceNeeded(cluster, job);
  if (!slice) return {};
  const bool by_compute = cluster.rules().slice_rule == SliceRule::kCompute;
  const ProfileShape& shape = ShapeOf(*slice);
  return fmt::format(
      "{} milli are a MIG slice {} (slices: {}): {} of 7 of the compute, {} of 8 of the memory.\n", job.milli,
      shape.name, by_compute ? "compute" : "memory", shape.compute, shape.memory);
}

}  // namespace

report::Document CheckDocument(const std::vector<CheckedSnapshot>& checked) {
  report::Document document("sched.optimal");
  for (const bool unlike : {false, true})
    for (const Isolation level : {Isolation::kNone, Isolation::kFraction, Isolation::kGpu})
      AddLevel(document, checked, level, unlike);
  for (const CheckedSnapshot& one : checked)
    if (!one.Same())
      document.AddRow({{"kind", "gap"},
                       {"gpus", GpusWord(one.unlike)},
                       {"isolation", ToString(one.isolation)},
                       {"seed", one.seed},
                       {"jobs", one.jobs},
                       {"ours", NullUnless(one.placed, one.ours)},
                       {"optimum", NullUnless(one.can_place, one.optimum)},
                       {"in_time", one.solved},
                       {"fault", one.fault}});
  return document;
}

std::string CheckText(const std::vector<CheckedSnapshot>& checked) {
  const report::Document document = CheckDocument(checked);
  ordered_json levels = ordered_json::array(), gaps = ordered_json::array();
  for (ordered_json row : document.rows()) {
    const bool level = row["kind"] == "level";
    row.erase("kind");
    (level ? levels : gaps).push_back(row);
  }
  return fmt::format("{}\n{}", ReportTable(levels).Text(),
                     gaps.empty() ? "No gaps.\n" : "Every gap:\n" + ReportTable(gaps).Text());
}

namespace {

// The slice that the job would have there, where the node's GPUs are divided.
std::optional<Profile> SliceThere(const Cluster& cluster, const Job& job, const Spot& spot) {
  const Node& node = cluster.nodes()[static_cast<size_t>(spot.node)];
  const bool slices = cluster.rules().isolation == Isolation::kFraction && job.Fractional() &&
                      cluster.models()[static_cast<size_t>(node.model)].mig;
  return slices ? std::optional(SliceOf(job, cluster.rules().slice_rule)) : std::nullopt;
}

int StartThere(const Cluster& cluster, Profile profile, const Spot& spot) {
  const Node& node = cluster.nodes()[static_cast<size_t>(spot.node)];
  return spot.start >= 0 ? spot.start : BestStart(profile, node.slices[static_cast<size_t>(spot.gpu)]);
}

// What a score is, and which GPU of a node is taken.
std::string HowText(const PlacerOptions& how, bool looks_ahead, bool part) {
  std::string score, gpu;
  switch (how.policy) {
    case Policy::kSpillway:
      score =
          "0 to 60, in whole steps by how little becomes useless; from that up to 1 is taken off by the "
          "share of "
          "idle GPUs, so that of nodes in one step the most used one is taken";
      gpu = "the one where least becomes useless, in the same steps; of equals the first";
      if (looks_ahead) {
        score =
            "0 or less: what the node loses of its worth to the jobs that are expected (those that run, and "
            "common sizes), in thirtieths of a GPU; half a thirtieth more where an idle GPU would be shared; "
            "of equals the first "
            "node";
        gpu = "the one where the node loses least; of equals the first";
      }
      break;
    case Policy::kFgd:
      score = "0 to 100, in whole numbers by how little becomes useless; of equals the first node";
      gpu = "the one where least becomes useless, in the same whole numbers; of equals the first";
      break;
    case Policy::kBestFit:
      score = "0 to 100, by how little CPU and GPU is left over";
      gpu = "the fullest that fits";
      break;
    case Policy::kDotProduct:
      score = "0 to 100, the higher the smaller the product of what is asked for and what is left";
      gpu = "the fullest that fits";
      break;
    case Policy::kGpuClustering:
      score = "0 to 100, by whether jobs of the same kind run there, then by how much of its GPUs is taken";
      gpu = "the fullest that fits";
      break;
    case Policy::kGpuPacking:
      score = "0 to 100: used GPUs, then idle GPUs of used nodes, then idle nodes";
      gpu = "the fullest that fits";
      break;
    case Policy::kFirstFit:
      score = "none: the first node that fits";
      gpu = "the first that fits";
      break;
    case Policy::kRandom:
      score = "none: any node that fits";
      gpu = "any that fits";
      break;
  }
  if (how.objective == Objective::kFewestGpus) {
    score += "; less 1000 for each GPU that is switched on";
    gpu = "one that is on; of those " + gpu;
  }
  if (how.objective == Objective::kEarliest) score += "; more by 10000 times the model's speed";
  std::string text =
      fmt::format("score ({}, objective {}): {}.\n", ToString(how.policy), ToString(how.objective), score);
  if (part) text += fmt::format("The GPU within a node: {}.\n", gpu);
  return text;
}

// Which GPUs the job gets there: "2", or "0,3"; "" where it needs none.
std::string GpusThere(const Cluster& cluster, const Job& job, const Spot& spot) {
  if (job.gpus == 0) return {};
  if (job.Fractional()) return std::to_string(spot.gpu);
  Cluster after = cluster;
  JobId id = 0;
  while (after.Placed(id)) ++id;
  after.Place(id, job, spot);
  std::string gpus;
  for (int gpu = 0; gpu < kMaxGpus; ++gpu)
    if ((after.WholeGpusOf(id) >> gpu & 1) != 0) gpus += fmt::format("{}{}", gpus.empty() ? "" : ",", gpu);
  return gpus;
}

}  // namespace

report::Document ExplanationDocument(const Cluster& cluster, const Job& job, const Explanation& why) {
  report::Document document("sched.place");
  for (size_t i = 0; i < why.best.size(); ++i) {
    const auto& one = why.best[i];
    const Node& node = cluster.nodes()[static_cast<size_t>(one.spot.node)];
    const auto slice = SliceThere(cluster, job, one.spot);
    document.AddRow({{"kind", "node"},
                     {"chosen", i == 0 && why.chosen.has_value()},
                     {"node", node.name},
                     {"model", cluster.models()[static_cast<size_t>(node.model)].name},
                     {"gpu", job.Fractional() ? ordered_json(one.spot.gpu) : ordered_json()},
                     {"gpus", GpusThere(cluster, job, one.spot)},
                     {"slice", slice ? ordered_json(ShapeOf(*slice).name) : ordered_json()},
                     {"start", slice ? ordered_json(StartThere(cluster, *slice, one.spot)) : ordered_json()},
                     {"fragmentation_milli", Rounded(one.fragmentation, 10)},
                     {"gpus_switched_on", one.gpus_switched_on},
                     {"speed", one.speed},
                     {"score", Rounded(one.score, 1000)}});
  }
  for (const auto& one : why.gpus)
    document.AddRow(
        {{"kind", "gpu"},
         {"chosen", one.gpu == why.chosen->gpu},
         {"node", cluster.nodes()[static_cast<size_t>(why.chosen->node)].name},
         {"gpu", one.gpu},
         {"fits", one.fits},
         {"on", one.on},
         {"free_milli", one.free_milli},
         {"start", one.start >= 0 ? ordered_json(one.start) : ordered_json()},
         {"fragmentation_milli", one.fits ? ordered_json(Rounded(one.fragmentation, 10)) : ordered_json()}});
  document.SetRatio("nodes", why.nodes);
  document.SetRatio("fitting", why.fitting);
  document.SetRatio("refused_model", why.refused.model);
  document.SetRatio("refused_cpu", why.refused.cpu);
  document.SetRatio("refused_memory", why.refused.memory);
  document.SetRatio("refused_gpu", why.refused.gpu);
  document.SetRatio("refused_tenant", why.refused.tenant);
  return document;
}

std::string ExplanationText(const Cluster& cluster, const Job& job, const Explanation& why, bool all) {
  std::string text;
  if (why.chosen) {
    const Node& node = cluster.nodes()[static_cast<size_t>(why.chosen->node)];
    const std::string gpus = GpusThere(cluster, job, *why.chosen);
    text = node.name;
    if (!gpus.empty()) text += fmt::format(" GPU{} {}", job.gpus > 1 ? "s" : "", gpus);
    if (const auto slice = SliceThere(cluster, job, *why.chosen))
      text += fmt::format(" slice {}@{}", ShapeOf(*slice).name, StartThere(cluster, *slice, *why.chosen));
    text += "\n";
  } else {
    text = "fits nowhere\n";
  }
  if (!all && why.chosen) return text;
  text += fmt::format("\n{} of {} nodes can take it{}.\n{}", why.fitting, why.nodes,
                      LackText(cluster, job, why), ProfileText(cluster, job));
  if (why.best.empty()) return text;
  ordered_json nodes = ordered_json::array(), gpus = ordered_json::array();
  const report::Document document = ExplanationDocument(cluster, job, why);
  for (ordered_json row : document.rows()) {
    const bool node = row["kind"] == "node";
    row.erase("kind");
    if (!node) row.erase("node");
    if (node) row["gpu"] = row["gpus"];
    row.erase("gpus");
    (node ? nodes : gpus).push_back(row);
  }
  text += "\n" + ReportTable(nodes).Text();
  if (why.chosen && !gpus.empty())
    text += fmt::format("\nThe GPUs of {}:\n{}", cluster.nodes()[static_cast<size_t>(why.chosen->node)].name,
                        ReportTable(gpus).Text());
  return text + "\n" + HowText(why.how, why.looks_ahead, job.Fractional()) +
         "fragmentation_milli: thousandths of a GPU that become useless by it to the jobs that usually come; "
         "less than 0: that become useful.\n"
         "gpu, start: from 0, a GPU of the node and a memory slice of that GPU. free_milli: thousandths of "
         "the "
         "GPU. speed: a T4's is 1.\n";
}

report::Document GeometryDocument(SliceMask taken, bool double_memory) {
  const Geometry geometry = Reachable(taken, double_memory);
  report::Document document("sched.mig");
  for (const ProfileCounts& one : geometry.multisets)
    document.AddRow({{"slices", ToText(one)},
                     {"maximal", std::find(geometry.maximal.begin(), geometry.maximal.end(), one) !=
                                     geometry.maximal.end()}});
  document.SetRatio("multisets", static_cast<double>(geometry.multisets.size()));
  document.SetRatio("maximal", static_cast<double>(geometry.maximal.size()));
  document.SetRatio("maximal_placements", static_cast<double>(geometry.placements.size()));
  return document;
}

std::string GeometryText(SliceMask taken, bool double_memory, const GpuModel& model) {
  const Geometry geometry = Reachable(taken, double_memory);
  report::Table profiles({{"profile", ""},
                          {"compute", "compute [1/7]"},
                          {"memory", "memory [1/8]"},
                          {"memory_gb", "GB", 0},
                          {"starts", "may begin at"},
                          {"best", "best now"}});
  for (int p = 0; p < kProfiles; ++p) {
    const auto profile = static_cast<Profile>(p);
    if (!double_memory && profile == Profile::k1gMem) continue;
    const ProfileShape& shape = ShapeOf(profile);
    std::vector<int> free;
    std::copy_if(shape.starts.begin(), shape.starts.end(), std::back_inserter(free),
                 [&](int start) { return (taken & MaskOf(profile, start)) == 0; });
    const int best = BestStart(profile, taken);
    profiles.AddRow(
        {std::string(shape.name), int64_t{shape.compute}, int64_t{shape.memory},
         model.slice_memory_gb > 0 ? report::Cell(model.slice_memory_gb * shape.memory) : report::Cell(),
         free.empty() ? report::Cell() : report::Cell(fmt::format("{}", fmt::join(free, ", "))),
         best < 0 ? report::Cell() : report::Cell(int64_t{best})});
  }
  std::string text = fmt::format(
      "{}\n{} sets of slices, {} of them maximal, {} maximal placements\n\nMaximal:\n", profiles.Text(),
      geometry.multisets.size(), geometry.maximal.size(), geometry.placements.size());
  for (auto one = geometry.maximal.rbegin(); one != geometry.maximal.rend(); ++one)
    text += "  " + ToText(*one) + "\n";
  return text;
}

}  // namespace spillway::scheduler

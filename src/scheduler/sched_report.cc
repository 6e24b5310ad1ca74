// SPDX-License-Identifier: Apache-2.0
#include "scheduler/sched_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "report/percentile.h"
#include "scheduler/report_table.h"

namespace spillway::scheduler {
namespace {

using nlohmann::ordered_json;

double Mean(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return values.empty() ? 0 : sum / static_cast<double>(values.size());
}

double Rounded(double value, double steps) { return std::round(value * steps) / steps; }

// The runs of one policy, in the order in which policies first came.
std::vector<std::pair<Policy, std::vector<const PlacementRun*>>> ByPolicy(
    const std::vector<PlacementRun>& runs) {
  std::vector<std::pair<Policy, std::vector<const PlacementRun*>>> groups;
  for (const PlacementRun& run : runs) {
    auto at =
        std::find_if(groups.begin(), groups.end(), [&](const auto& g) { return g.first == run.policy; });
    if (at == groups.end()) at = groups.insert(groups.end(), {run.policy, {}});
    at->second.push_back(&run);
  }
  return groups;
}

std::string SavedKey(SharePolicy policy) {
  std::string name = ToString(policy);
  std::replace(name.begin(), name.end(), '-', '_');
  return fmt::format("saved_vs_{}_pct", name);
}

}  // namespace

report::Document PlacementDocument(const std::string& list, const std::vector<PlacementRun>& runs, int seeds,
                                   const PublishedByPolicy& published) {
  report::Document document("sched.placement." + list);
  document.SetRounds(seeds);
  std::map<std::string, std::pair<double, double>> means;
  std::pair<double, double> bounds = {100, 100};
  for (const auto& [policy, group] : ByPolicy(runs)) {
    std::vector<double> at_100, at_130, dropped, bound, willing;
    for (const PlacementRun* run : group) {
      bound.push_back(run->bound.any_pct);
      willing.push_back(run->bound.willing_pct);
      at_100.push_back(run->at_100);
      at_130.push_back(run->at_130);
      dropped.push_back(run->dropped);
    }
    const report::Spread spread = report::SpreadOf(at_100);
    const auto theirs = published.find(policy);
    const bool known = theirs != published.end();
    document.AddRow({{"policy", ToString(policy)},
                     {"list", list},
                     {"seeds", group.size()},
                     {"alloc_pct_at_100", Rounded(Mean(at_100), 1000)},
                     {"alloc_pct_at_130", Rounded(Mean(at_130), 1000)},
                     {"published_at_100", known ? ordered_json(theirs->second.at_100) : ordered_json()},
                     {"published_at_130", known ? ordered_json(theirs->second.at_130) : ordered_json()},
                     {"bound_pct", Rounded(Mean(bound), 1000)},
                     {"bound_willing_pct", Rounded(Mean(willing), 1000)},
                     {"min_pct_at_100", Rounded(spread.min, 1000)},
                     {"max_pct_at_100", Rounded(spread.max, 1000)},
                     {"dropped", Rounded(Mean(dropped), 10)}});
    means[ToString(policy)] = {Mean(at_100), Mean(at_130)};
    bounds = {Mean(bound), Mean(willing)};
  }
  const auto fgd = published.find(Policy::kFgd);
  if (fgd != published.end()) means["published"] = {fgd->second.at_100, fgd->second.at_130};
  if (means.contains("spillway") && means.contains("published"))
    document.SetRatio("points_over_published_fgd_at_130",
                      Rounded(means["spillway"].second - means["published"].second, 1000));
  // The share of the gap from FGD, as published where that is known, to a bound that spillway closes at 130
  // %.
  const char* from = means.contains("published") ? "published" : "fgd";
  if (means.contains("spillway") && means.contains(from)) {
    const double low = means[from].second, ours = means["spillway"].second;
    const auto closed = [&](double bound) { return Rounded(100 * (ours - low) / (bound - low), 10); };
    if (bounds.first > low) document.SetRatio("gap_to_bound_closed_pct", closed(bounds.first));
    if (bounds.second > low) document.SetRatio("gap_to_willing_bound_closed_pct", closed(bounds.second));
  }
  if (means.contains("spillway") && means.contains("fgd")) {
    document.SetRatio("points_over_fgd_at_100", Rounded(means["spillway"].first - means["fgd"].first, 1000));
    document.SetRatio("points_over_fgd_at_130",
                      Rounded(means["spillway"].second - means["fgd"].second, 1000));
  }
  return document;
}

std::string PlacementText(const report::Document& document) {
  return fmt::format(
      "{}\nMilli-GPUs allocated, % of the cluster's, when the demand that arrived was 100 % and 130 % of it; "
      "means of the seeds. published: FGD's authors. bound: no packing of these jobs allocates more at 130 "
      "%; "
      "bound_willing: no policy that refuses no job that fits.\n",
      ReportTable(document.rows()).Text());
}

report::HtmlPage PlacementPage(const std::string& list, const std::vector<PlacementRun>& runs,
                               const report::Document& document) {
  report::HtmlPage page(
      "Spillway scheduler: placement, list " + list,
      "Jobs arrive until they have asked for 130 % of the cluster and never leave; one that fits "
      "nowhere is dropped.");
  report::Chart chart;
  chart.title = "Allocated GPUs against arrived demand";
  chart.x = {"demand that arrived", "% of the cluster", false, 80.0, 130.0};
  chart.y = {"allocated", "%", false, 80.0, 100.0};
  for (const auto& [policy, group] : ByPolicy(runs)) {
    report::Series series;
    series.name = ToString(policy);
    series.dashed = policy != Policy::kSpillway;
    for (size_t k = 80 / kCurveStep; k <= kDemandPct / kCurveStep; ++k) {
      std::vector<double> at;
      for (const PlacementRun* run : group)
        if (k < run->curve.size()) at.push_back(run->curve[k]);
      if (!at.empty()) series.points.push_back({static_cast<double>(k) * kCurveStep, Mean(at)});
    }
    chart.series.push_back(std::move(series));
    if (policy == Policy::kSpillway) {
      std::vector<double> at_100;
      for (const PlacementRun* run : group) at_100.push_back(run->at_100);
      page.AddFigure(fmt::format("{:.2f} %", Mean(at_100)), "allocated at 100 % demand",
                     fmt::format("mean of {} seeds", group.size()));
    }
  }
  page.AddChart(chart);
  page.AddTable("By policy", ReportTable(document.rows()));
  page.Embed(document, "placement.json");
  return page;
}

report::Document GpuHoursDocument(const std::string& list, const std::vector<GpuHoursRun>& runs, int busy) {
  report::Document document("sched.gpu-hours." + list);
  std::map<ShareRule, std::map<SharePolicy, double>> hours;
  for (const GpuHoursRun& run : runs) hours[run.rule][run.policy] = run.gpu_hours;
  for (const GpuHoursRun& run : runs) {
    ordered_json row = {{"shares", ToString(run.rule)},
                        {"policy", ToString(run.policy)},
                        {"list", list},
                        {"busy", busy},
                        {"gpu_hours", Rounded(run.gpu_hours, 1000)},
                        {"migrations", run.migrations},
                        {"peak_gpus", run.peak_gpus}};
    for (const auto& [baseline, base] : hours[run.rule])
      if (baseline != SharePolicy::kSpillway)
        row[SavedKey(baseline)] = base > 0 ? Rounded(100 * (1 - run.gpu_hours / base), 100) : 0;
    document.AddRow(row);
  }
  return document;
}

std::string GpuHoursText(const report::Document& document) {
  std::string text = ReportTable(document.rows()).Text();
  return text +
         "\nGPU-hours switched on. Every saving names its baseline: saved_vs_X is against policy X in the "
         "same rule.\n"
         "shares: exact: a job gets its milli; compute: a MIG slice by sevenths of the compute, rounded up; "
         "memory: by "
         "eighths of the memory.\nleast-loaded has the whole cluster to spread over; static-quarters is GPUs "
         "in fixed "
         "quarters, under any rule.\n";
}

report::HtmlPage GpuHoursPage(const std::string& list, const std::vector<GpuHoursRun>& runs,
                              const report::Document& document) {
  report::HtmlPage page(
      "Spillway scheduler: GPU-hours, list " + list,
      "Jobs come and go as in the trace. How many GPUs are on, under each way to share them?");
  for (const GpuHoursRun& run : runs)
    if (run.policy == SharePolicy::kSpillway)
      page.AddFigure(fmt::format("{:.0f} h", run.gpu_hours),
                     fmt::format("GPU-hours, shares {}", ToString(run.rule)),
                     fmt::format("{} migrations", run.migrations));
  for (const ShareRule rule : {ShareRule::kExact, ShareRule::kCompute, ShareRule::kMemory}) {
    report::Chart chart;
    chart.title = fmt::format("GPUs on, shares {}", ToString(rule));
    chart.x = {"time", "% of the trace"};
    chart.y = {"GPUs on", ""};
    for (const GpuHoursRun& run : runs) {
      if (run.rule != rule) continue;
      report::Series series;
      series.name = ToString(run.policy);
      series.dashed = run.policy != SharePolicy::kSpillway;
      for (size_t k = 0; k < run.curve.size(); ++k)
        series.points.push_back({100.0 * (static_cast<double>(k) + 0.5) / kCurveParts, run.curve[k]});
      chart.series.push_back(std::move(series));
    }
    if (!chart.series.empty()) page.AddChart(chart);
  }
  page.AddTable("By policy", ReportTable(document.rows()));
  page.Embed(document, "gpu-hours.json");
  return page;
}

report::Document CheckDocument(const std::vector<CheckedSnapshot>& checked) {
  report::Document document("sched.optimal");
  for (const Isolation level : {Isolation::kNone, Isolation::kFraction, Isolation::kGpu}) {
    std::vector<double> ours_ms, solver_ms;
    int all = 0, same = 0, faults = 0;
    double worst = 0;
    for (const CheckedSnapshot& one : checked) {
      if (one.isolation != level) continue;
      ++all;
      same += one.Same() ? 1 : 0;
      faults += one.fault.empty() ? 0 : 1;
      worst = std::max(worst, one.optimum > 0 ? 100 * (one.ours / one.optimum - 1) : 0);
      ours_ms.push_back(one.ours_ms);
      solver_ms.push_back(one.solver_ms);
    }
    if (all == 0) continue;
    const double pct = 100.0 * same / all;
    document.AddRow({{"kind", "level"},
                     {"isolation", ToString(level)},
                     {"snapshots", all},
                     {"same", same},
                     {"same_pct", Rounded(pct, 100)},
                     {"faults", faults},
                     {"worst_gap_pct", Rounded(worst, 100)},
                     {"ours_median_ms", report::Median(ours_ms)},
                     {"cbc_median_ms", report::Median(solver_ms)}});
    document.SetRatio(fmt::format("same_{}", ToString(level)), pct / 100);
  }
  for (const CheckedSnapshot& one : checked)
    if (!one.Same())
      document.AddRow({{"kind", "gap"},
                       {"isolation", ToString(one.isolation)},
                       {"seed", one.seed},
                       {"jobs", one.jobs},
                       {"ours", one.ours},
                       {"optimum", one.optimum},
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
  text += fmt::format(
      "\n{} of {} nodes can take it. Of the others lack: the model {}, CPU {}, memory {}, GPU {}; "
      "another tenant has the room of {}.\n",
      why.fitting, why.nodes, why.refused.model, why.refused.cpu, why.refused.memory, why.refused.gpu,
      why.refused.tenant);
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
         "fragmentation_milli: what becomes useless by it to the jobs that usually come; less than 0: what "
         "becomes "
         "useful.\n";
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
    const int best = BestStart(profile, taken);
    profiles.AddRow(
        {std::string(shape.name), int64_t{shape.compute}, int64_t{shape.memory},
         model.slice_memory_gb > 0 ? report::Cell(model.slice_memory_gb * shape.memory) : report::Cell(),
         fmt::format("{}", fmt::join(shape.starts, ", ")),
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

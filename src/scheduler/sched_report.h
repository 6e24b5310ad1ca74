// SPDX-License-Identifier: Apache-2.0
// What the scheduler's experiments and answers look like: documents, tables, pages. Pure.
#pragma once

#include <string>
#include <vector>

#include "report/document.h"
#include "report/html_page.h"
#include "report/table.h"
#include "scheduler/gpu_hours_experiment.h"
#include "scheduler/optimal_check.h"
#include "scheduler/placement_experiment.h"
#include "scheduler/published_figures.h"

namespace spillway::scheduler {

// A row per policy: policy, list, seeds, alloc_pct_at_100, alloc_pct_at_130, their spread, dropped.
// What was published for the list, by policy; where FGD is in it, the gap to the bound begins there.
using PublishedByPolicy = std::map<Policy, PublishedFigures>;
[[nodiscard]] report::Document PlacementDocument(const std::string& list,
                                                 const std::vector<PlacementRun>& runs, int seeds,
                                                 const PublishedByPolicy& published = {});
[[nodiscard]] std::string PlacementText(const report::Document& document);
[[nodiscard]] report::HtmlPage PlacementPage(const std::string& list, const std::vector<PlacementRun>& runs,
                                             const report::Document& document);

// A row per rule and policy: shares, policy, gpu_hours, migrations, peak_gpus, and what is saved against each
// baseline by its name.
[[nodiscard]] report::Document GpuHoursDocument(const std::string& list, const std::vector<GpuHoursRun>& runs,
                                                int busy);
[[nodiscard]] std::string GpuHoursText(const report::Document& document);
[[nodiscard]] report::HtmlPage GpuHoursPage(const std::string& list, const std::vector<GpuHoursRun>& runs,
                                            const report::Document& document);

// A row per level and a row per gap: kind "level" or "gap".
[[nodiscard]] report::Document CheckDocument(const std::vector<CheckedSnapshot>& checked);
[[nodiscard]] std::string CheckText(const std::vector<CheckedSnapshot>& checked);

[[nodiscard]] report::Document ExplanationDocument(const Cluster& cluster, const Job& job,
                                                   const Explanation& why);
[[nodiscard]] std::string ExplanationText(const Cluster& cluster, const Job& job, const Explanation& why,
                                          bool all);

[[nodiscard]] report::Document GeometryDocument(SliceMask taken, bool double_memory);
[[nodiscard]] std::string GeometryText(SliceMask taken, bool double_memory, const GpuModel& model);

}  // namespace spillway::scheduler

// SPDX-License-Identifier: Apache-2.0
// What the experiments on lists of jobs say: documents, texts, pages. Pure.
#pragma once

#include <cmath>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "report/document.h"
#include "report/html_page.h"
#include "report/table.h"
#include "scheduler/replay/arrivals_experiment.h"
#include "scheduler/replay/gpu_hours_experiment.h"
#include "scheduler/replay/placement_experiment.h"
#include "scheduler/replay/published_figures.h"

namespace spillway::scheduler {

// What the placement experiment says: rows, text, page.
// A row per policy, of policy spillway per way to choose prices; docs/scheduler.md has their keys. Its rounds
// are the seeds that were run. How much of the gap to a bound spillway closes begins at FGD as published
// where `published` has that, and has another key where it begins at ours.
[[nodiscard]] report::Document PlacementDocument(const std::string& list,
                                                 const std::vector<PlacementRun>& runs,
                                                 const PublishedByPolicy& published = {});
[[nodiscard]] std::string PlacementText(const report::Document& document);
[[nodiscard]] report::HtmlPage PlacementPage(const std::string& list, const std::vector<PlacementRun>& runs,
                                             const report::Document& document);

// The arrivals experiment as a document, a table and a page.
[[nodiscard]] report::Document ArrivalsDocument(const std::string& list, const std::vector<ArrivalsRun>& runs,
                                                const ArrivalsOptions& options);
[[nodiscard]] std::string ArrivalsText(const report::Document& document);
[[nodiscard]] report::HtmlPage ArrivalsPage(const std::string& list, const std::vector<ArrivalsRun>& runs,
                                            const report::Document& document);

// The GPU-hours experiment's rows as JSON, text and page.
// A row per rule and policy; docs/scheduler.md has their keys. Every saving names its baseline.
[[nodiscard]] report::Document GpuHoursDocument(const std::string& list, const std::vector<GpuHoursRun>& runs,
                                                const GpuHoursOptions& options);
[[nodiscard]] std::string GpuHoursText(const report::Document& document);
[[nodiscard]] report::HtmlPage GpuHoursPage(const std::string& list, const std::vector<GpuHoursRun>& runs,
                                            const report::Document& document);

// Rows of these reports as a table for readers: a column has one number of decimals, by its unit. The
// documents have all that was computed.
[[nodiscard]] report::Table ReportTable(const nlohmann::ordered_json& rows);

// To a step-th; never -0.
[[nodiscard]] inline double Rounded(double value, double steps) {
  return std::round(value * steps) / steps + 0.0;
}

}  // namespace spillway::scheduler

// SPDX-License-Identifier: Apache-2.0
// What the placement experiment says: rows, text, page. Pure.
#pragma once

#include <string>
#include <vector>

#include "report/document.h"
#include "report/html_page.h"
#include "scheduler/replay/placement_experiment.h"
#include "scheduler/replay/published_figures.h"

namespace spillway::scheduler {

// A row per policy, of policy spillway per way to choose prices; docs/scheduler.md has their keys. Its rounds
// are the seeds that were run. How much of the gap to a bound spillway closes begins at FGD as published
// where `published` has that, and has another key where it begins at ours.
[[nodiscard]] report::Document PlacementDocument(const std::string& list,
                                                 const std::vector<PlacementRun>& runs,
                                                 const PublishedByPolicy& published = {});
[[nodiscard]] std::string PlacementText(const report::Document& document);
[[nodiscard]] report::HtmlPage PlacementPage(const std::string& list, const std::vector<PlacementRun>& runs,
                                             const report::Document& document);

}  // namespace spillway::scheduler

// SPDX-License-Identifier: Apache-2.0
// What the scheduler's answers look like: documents and tables. Pure.
#pragma once

#include <string>
#include <vector>

#include "report/document.h"
#include "scheduler/oracle/optimal_check.h"
#include "scheduler/placer.h"

namespace spillway::scheduler {

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

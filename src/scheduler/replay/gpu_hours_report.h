// SPDX-License-Identifier: Apache-2.0
// The GPU-hours experiment's rows as JSON, text and page. Pure.
#pragma once

#include <string>
#include <vector>

#include "report/document.h"
#include "report/html_page.h"
#include "scheduler/replay/gpu_hours_experiment.h"

namespace spillway::scheduler {

// A row per rule and policy; docs/scheduler.md has their keys. Every saving names its baseline.
[[nodiscard]] report::Document GpuHoursDocument(const std::string& list, const std::vector<GpuHoursRun>& runs,
                                                const GpuHoursOptions& options);
[[nodiscard]] std::string GpuHoursText(const report::Document& document);
[[nodiscard]] report::HtmlPage GpuHoursPage(const std::string& list, const std::vector<GpuHoursRun>& runs,
                                            const report::Document& document);

}  // namespace spillway::scheduler

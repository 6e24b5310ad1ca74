// SPDX-License-Identifier: Apache-2.0
// The switch benchmark's results as one document, a table and a page of plots. Pure but for WritePage.
#pragma once

#include <string>
#include <vector>

#include "bench/switch/rounds.h"
#include "report/document.h"
#include "report/table.h"

namespace spillway::bench {

// Rows: class, packet, flows, entries, evicted, mode, policy, floor_ns, floor_ns_median, then established_ns,
// new_flow_ns or report_ns with its _median, above_floor_ns and its _median, bytes_per_flow, aim_ns,
// within_aim. Without a suffix, times are minima over all rounds.
report::Document MakeDocument(const std::vector<RowResult>& results, int rounds);

report::Table MakeTable(const report::Document& document);

// Writes switch.json, switch.html and the plots as SVG into `folder`.
[[nodiscard]] Result<void> WritePage(const report::Document& document, const std::string& folder);

}  // namespace spillway::bench

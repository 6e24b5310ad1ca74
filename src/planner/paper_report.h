// SPDX-License-Identifier: Apache-2.0
// The papers' figures recomputed, as text and JSON document. Pure, but for the machine's description.
#pragma once

#include <string>
#include <vector>

#include "planner/paper.h"
#include "report/document.h"

namespace spillway::planner {

[[nodiscard]] std::string PaperText(const std::vector<PaperRow>& rows);
// Rows: id, claim, paper, value (null: only a measurement can say), match, reason, formula.
[[nodiscard]] report::Document PaperDocument(const std::vector<PaperRow>& rows);

}  // namespace spillway::planner

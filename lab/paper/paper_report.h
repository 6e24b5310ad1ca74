// SPDX-License-Identifier: Apache-2.0
// The rows about the paper's claims as text and as a JSON document. Pure, but for the machine's description.
#pragma once

#include <string>
#include <vector>

#include "claims.h"
#include "report/document.h"

namespace spillway::lab {

// Rows: id, figure, claim, paper, simulator, simulator_matches, lab, lab_matches, match, reason; null where
// there is nothing. Ratios: claims, claims_compared, claims_matched, and of each side SIDE_compared,
// SIDE_matched.
[[nodiscard]] report::Document PaperDocument(const std::vector<PaperRow>& rows, int repeats);
// `with_lab`: false says that the lab was left out.
[[nodiscard]] std::string PaperText(const std::vector<PaperRow>& rows, bool with_lab);

}  // namespace spillway::lab

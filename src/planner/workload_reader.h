// SPDX-License-Identifier: Apache-2.0
// Workload files: YAML -> what a plan is made from, the catalogue included. Errors hold everything that is
// wrong, one line each, "file:line: key: expected what, got what", with kBadInput. docs/planner.md
// describes every key. Threading: none keeps state.
#pragma once

#include <string>
#include <vector>

#include "base/error.h"
#include "planner/workload.h"

namespace spillway::planner {

// The catalogue is the shipped one, then `more` merged into it in order, then the file's own `catalogues:`,
// whose paths are relative to the file.
[[nodiscard]] Result<PlanInput> ParseWorkload(const std::string& text, const std::string& file_name,
                                              const std::vector<Catalogue>& more = {});
[[nodiscard]] Result<PlanInput> LoadWorkload(const std::string& path,
                                             const std::vector<Catalogue>& more = {});

}  // namespace spillway::planner

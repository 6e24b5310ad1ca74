// SPDX-License-Identifier: Apache-2.0
// The beds that come with Spillway, as `lab beds` lists them.
#pragma once

#include <string>
#include <vector>

#include "base/error.h"
#include "report/table.h"

namespace spillway::lab {

struct ListedBed {
  std::string name, description;
  std::string policies, loads;  // separated by commas
};

// The files of the folder's `beds/`, by name. Errors: LoadExperiment's.
[[nodiscard]] Result<std::vector<ListedBed>> ListBeds(const std::string& folder);

// All of them with all that is known of them.
[[nodiscard]] report::Table BedTable(const std::vector<ListedBed>& beds);
// For a terminal: where all have the same policies and loads, these are said once, below.
[[nodiscard]] std::string BedsText(const std::vector<ListedBed>& beds);

}  // namespace spillway::lab

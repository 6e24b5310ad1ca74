// SPDX-License-Identifier: Apache-2.0
#include "bed_list.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "experiment_spec.h"
#include "named.h"

namespace spillway::lab {

Result<std::vector<ListedBed>> ListBeds(const std::string& folder) {
  std::vector<ListedBed> beds;
  for (const NamedFile& bed : Beds(folder)) {
    const auto spec = LoadExperiment(bed.path, false);
    if (!spec) return tl::make_unexpected(spec.error());
    std::vector<std::string> policies;
    for (const PolicyRun& policy : spec->policies) policies.push_back(policy.name);
    beds.push_back({bed.app, spec->description, fmt::format("{}", fmt::join(policies, ",")),
                    fmt::format("{:g}", fmt::join(spec->load_pct, ","))});
  }
  if (beds.empty()) return Fail(ErrorCode::kUnavailable, folder + "/beds has no lab files");
  return beds;
}

report::Table BedTable(const std::vector<ListedBed>& beds) {
  report::Table table(
      {{"name", "BED"}, {"description", "DESCRIPTION"}, {"policies", "POLICIES"}, {"loads", "LOADS"}});
  for (const ListedBed& bed : beds) table.AddRow({bed.name, bed.description, bed.policies, bed.loads});
  return table;
}

std::string BedsText(const std::vector<ListedBed>& beds) {
  const bool alike = std::all_of(beds.begin(), beds.end(), [&](const ListedBed& bed) {
    return bed.policies == beds.front().policies && bed.loads == beds.front().loads;
  });
  if (!alike || beds.empty()) return BedTable(beds).Text();
  report::Table table({{"name", "BED"}, {"description", "DESCRIPTION"}});
  for (const ListedBed& bed : beds) table.AddRow({bed.name, bed.description});
  return fmt::format("{}\nAll: policies {}; loads {} % of the capacity.\n", table.Text(),
                     beds.front().policies, beds.front().loads);
}

}  // namespace spillway::lab

// SPDX-License-Identifier: Apache-2.0
#include "heard_file.h"

#include <fstream>
#include <nlohmann/json.hpp>

#include "base/file.h"

namespace spillway::switching {

using nlohmann::json;

Result<void> SaveHeard(const HeardReports& heard, const std::string& path) {
  json saved = json::object();
  for (const auto& [unit, seen] : heard) saved[unit] = {uint64_t{seen.boot_id}, uint32_t{seen.sequence}};
  // Its owner's alone: the numbers say what an attacker's next report would need.
  return base::WriteFile(path, saved.dump(0) + "\n", {.mode = 0600});
}

HeardReports LoadHeard(const std::string& path) {
  std::ifstream in(path);
  const json saved = json::parse(in, nullptr, false);
  HeardReports heard;
  if (!saved.is_object()) return heard;
  for (const auto& [unit, last] : saved.items()) {
    if (!last.is_array() || last.size() != 2 || !last[0].is_number_unsigned() ||
        !last[1].is_number_unsigned())
      continue;
    spw_report_seen seen{};
    seen.boot_id = last[0].get<uint64_t>();
    seen.sequence = last[1].get<uint32_t>();
    heard[unit] = seen;
  }
  return heard;
}

bool IsLater(const spw_report_seen& a, const spw_report_seen& b) {
  spw_report report{};
  report.boot_id = a.boot_id;
  report.sequence = a.sequence;
  return spw_report_is_newer(&report, &b) != 0;
}

}  // namespace spillway::switching

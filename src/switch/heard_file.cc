// SPDX-License-Identifier: Apache-2.0
#include "heard_file.h"

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/file.h"

namespace spillway::switching {

using nlohmann::json;

uint64_t KeyTag(const model::Key& key) {
  const spw_siphash_key words = spw_siphash_key_of(key.data());
  const __u64 text[] = {0x5350572d4b455931};  // a report's tag is over eight words
  return spw_siphash24(&words, text, 1);
}

Result<void> SaveHeard(const HeardReports& heard, const std::string& path) {
  json saved = json::object();
  for (const auto& [unit, report] : heard)
    saved[unit] = {uint64_t{report.last.boot_id}, uint32_t{report.last.sequence}, report.key_tag};
  // Its owner's alone: the numbers say what an attacker's next report would need.
  return base::WriteFile(path, saved.dump(0) + "\n", {.mode = 0600});
}

HeardReports LoadHeard(const std::string& path) {
  std::ifstream in(path);
  const json saved = json::parse(in, nullptr, false);
  HeardReports heard;
  if (!saved.is_object()) return heard;
  for (const auto& [unit, last] : saved.items()) {
    if (!last.is_array() || last.size() != 3 ||
        !std::all_of(last.begin(), last.end(), [](const json& n) { return n.is_number_unsigned(); }))
      continue;
    HeardReport& report = heard[unit];
    report.last.boot_id = last[0].get<uint64_t>();
    report.last.sequence = last[1].get<uint32_t>();
    report.key_tag = last[2].get<uint64_t>();
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

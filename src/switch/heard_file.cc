// SPDX-License-Identifier: Apache-2.0
#include "heard_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/file.h"

namespace spillway::switching {

using nlohmann::json;

namespace {

// [boot id, sequence, key tag], the last of which was not there once.
std::optional<HeardReport> ParseReport(const json& saved) {
  if (!saved.is_array() || saved.size() < 2 || saved.size() > 3 ||
      !std::ranges::all_of(saved, [](const json& n) { return n.is_number_unsigned(); }))
    return std::nullopt;
  HeardReport report;
  report.last.boot_id = saved[0].get<uint64_t>();
  report.last.sequence = saved[1].get<uint32_t>();
  if (saved.size() == 3) report.key_tag = saved[2].get<uint64_t>();
  return report;
}

}  // namespace

uint64_t KeyTag(const spw_siphash_key& key) {
  const __u64 text[] = {0x5350572d4b455931};  // a report's tag is over eight words
  return spw_siphash24(&key, text, 1);
}

void HeardUnit::Note(const HeardReport& report) {
  HeardReport kept = report;
  const auto found = std::ranges::find(reports_, report.key_tag, &HeardReport::key_tag);
  if (found != reports_.end()) {
    if (!IsLater(kept.last, found->last)) kept.last = found->last;
    reports_.erase(found);
  }
  reports_.insert(reports_.begin(), kept);
  if (reports_.size() > kHeardKeys) reports_.pop_back();
}

spw_report_seen HeardUnit::LastUnder(uint64_t key_tag) {
  auto found = std::ranges::find(reports_, key_tag, &HeardReport::key_tag);
  if (found == reports_.end()) {
    found = std::ranges::find(reports_, kUnknownKey, &HeardReport::key_tag);
    if (found != reports_.end()) found->key_tag = key_tag;
  }
  return found == reports_.end() ? spw_report_seen{} : found->last;
}

void HeardUnit::Forget(uint64_t key_tag) {
  std::erase_if(reports_, [&](const HeardReport& report) {
    return report.key_tag == key_tag || report.key_tag == kUnknownKey;
  });
}

void HeardUnit::Append(const HeardReport& report) {
  if (reports_.size() < kHeardKeys) reports_.push_back(report);
}

Result<void> SaveHeard(const HeardReports& heard, const std::string& path) {
  json saved = json::object();
  for (const auto& [unit, keys] : heard) {
    json& list = saved[unit] = json::array();
    for (const HeardReport& report : keys.reports()) {
      json entry = {uint64_t{report.last.boot_id}, uint32_t{report.last.sequence}};
      if (report.key_tag != kUnknownKey) entry.push_back(report.key_tag);
      list.push_back(std::move(entry));
    }
  }
  // Its owner's alone: the numbers say what an attacker's next report would need.
  return base::WriteFile(path, saved.dump() + "\n", {.mode = 0600});
}

std::string WireName(uint16_t id) { return fmt::format("#{}/{}", spw_unit_server(id), spw_unit_index(id)); }

HeardReports LoadHeard(const std::string& path) {
  HeardReports heard;
  const auto text = base::ReadFile(path);
  if (!text) return heard;
  const json saved = json::parse(*text, nullptr, false);
  if (!saved.is_object()) return heard;
  for (const auto& [unit, keys] : saved.items()) {
    if (const auto only = ParseReport(keys)) heard[unit].Append(*only);
    if (!keys.is_array()) continue;
    for (const json& key : keys)
      if (const auto report = ParseReport(key)) heard[unit].Append(*report);
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

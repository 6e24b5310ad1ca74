// SPDX-License-Identifier: Apache-2.0
#include "document.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <utility>

#include "file.h"

namespace spillway::report {

using nlohmann::ordered_json;

Document::Document(std::string bench, Machine machine, std::string_view commit)
    : bench_(std::move(bench)), machine_(std::move(machine)), commit_(commit) {}

void Document::AddRow(ordered_json row) {
  if (!row.is_object()) throw std::invalid_argument("Document::AddRow: not an object");
  for (auto& [key, value] : row.items()) {
    if (value.is_structured())
      throw std::invalid_argument(fmt::format("Document::AddRow: {} is not a flat value", key));
    if (value.is_number_float() && !std::isfinite(value.get<double>())) value = nullptr;
  }
  rows_.push_back(std::move(row));
}

void Document::SetRatio(const std::string& name, double value) {
  ratios_[name] = std::isfinite(value) ? ordered_json(value) : ordered_json(nullptr);
}

ordered_json Document::Json() const {
  return {{"bench", bench_},
          {"commit", commit_},
          {"machine",
           {{"cpu", machine_.cpu},
            {"cores", machine_.cores},
            {"kernel", machine_.kernel},
            {"memory_gib", machine_.memory_gib}}},
          {"rounds", rounds_},
          {"rows", rows_},
          {"ratios", ratios_}};
}

std::string Document::Dump() const {
  // Bytes that are not UTF-8 (a kernel's odd CPU name) must not lose the result of a long run.
  return Json().dump(2, ' ', false, ordered_json::error_handler_t::replace) + '\n';
}

Result<void> Document::Write(const std::string& path) const { return WriteFile(path, Dump()); }

}  // namespace spillway::report

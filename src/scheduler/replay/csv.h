// SPDX-License-Identifier: Apache-2.0
// Reads a file of comma-separated lines whose columns are named in the first. No quoting. Keeps the first
// problem, as "file:line: column: what was expected". One thread.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/print.h"
#include "base/yaml/problems.h"

namespace spillway::scheduler {

// "a|b" at '|' is {"a", "b"}. The parts view into `line`.
inline std::vector<std::string_view> Split(std::string_view line, char mark) {
  std::vector<std::string_view> parts;
  for (;;) {
    const size_t at = line.find(mark);
    parts.push_back(line.substr(0, at));
    if (at == std::string_view::npos) return parts;
    line.remove_prefix(at + 1);
  }
}

// A file of lines, with the names of its columns in the first one.
class Csv {
 public:
  Csv(const std::string& text, const std::string& file_name)
      : lines_(text), file_name_(base::Printable(file_name)) {}

  // Goes to the next line of data.
  bool Next() {
    while (std::getline(lines_, line_)) {
      ++number_;
      if (!line_.empty() && line_.back() == '\r') line_.pop_back();
      if (line_.empty()) continue;
      cells_ = Split(line_, ',');
      if (cells_.size() != columns_.size())
        Refuse("", fmt::format("expected {} columns, got {}", columns_.size(), cells_.size()));
      return !error_;
    }
    return false;
  }
  // Requires every one of `names` to be a column.
  void Need(std::initializer_list<std::string_view> names) {
    for (const auto name : names)
      if (!Has(name) && !error_) {
        number_ = 1;
        Refuse("", fmt::format("expected a column \"{}\" in the first line", name));
      }
  }
  bool Has(std::string_view name) const {
    return std::find(columns_.begin(), columns_.end(), name) != columns_.end();
  }
  std::string_view Text(std::string_view name) const {
    const auto at = std::find(columns_.begin(), columns_.end(), name) - columns_.begin();
    return static_cast<size_t>(at) < cells_.size() ? cells_[static_cast<size_t>(at)] : std::string_view();
  }
  int64_t Number(std::string_view name, int64_t low, int64_t high) {
    const std::string_view text = Text(name);
    int64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error == std::errc() && end == text.data() + text.size() && value >= low && value <= high)
      return value;
    Refuse(name,
           fmt::format("expected a whole number from {} to {}, got {}", low, high, yaml::Excerpt(text)));
    return low;
  }
  double Real(std::string_view name, double low, double high) {
    const std::string_view text = Text(name);
    double value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error == std::errc() && end == text.data() + text.size() && value >= low && value <= high)
      return value;
    Refuse(name, fmt::format("expected a number from {} to {}, got {}", low, high, yaml::Excerpt(text)));
    return low;
  }
  void Refuse(std::string_view column, const std::string& text) {
    if (error_) return;
    error_ = Error{ErrorCode::kBadInput, fmt::format("{}:{}: {}{}{}", file_name_, std::max(number_, 1),
                                                     column, column.empty() ? "" : ": ", text)};
  }
  // To be called first.
  void ReadHeader() {
    std::string first;
    while (columns_.empty() && std::getline(lines_, first)) {
      ++number_;
      if (!first.empty() && first.back() == '\r') first.pop_back();
      if (first.empty()) continue;
      for (const auto& cell : Split(first, ',')) {
        if (!cell.empty() && Has(cell)) Refuse("", "duplicate column " + yaml::Excerpt(cell));
        columns_.emplace_back(cell);
      }
    }
  }
  int line() const { return number_; }  // of the file, from 1 on
  const std::optional<Error>& error() const { return error_; }

 private:
  std::istringstream lines_;
  std::string file_name_, line_;
  std::vector<std::string> columns_;
  std::vector<std::string_view> cells_;
  int number_ = 0;
  std::optional<Error> error_;
};

}  // namespace spillway::scheduler

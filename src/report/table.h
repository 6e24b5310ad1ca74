// SPDX-License-Identifier: Apache-2.0
// A table of results, for terminals, spreadsheets, JSON and HTML. Not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace spillway::report {

// Missing, text, real, integer or truth. A real that is NaN or infinite counts as missing.
using Cell = std::variant<std::monostate, std::string, double, std::int64_t, bool>;

struct Column {
  std::string key;    // the name in JSON, CSV and TSV, unit included: "p99_ms"
  std::string title;  // the heading a reader sees: "p99 [ms]"; empty: the key
  int decimals = -1;  // of reals in Text and HTML; -1: as many as 4 significant digits need
};

class Table {
 public:
  explicit Table(std::vector<Column> columns);

  // Columns from the keys of flat JSON objects, in order of first appearance; absent keys are missing.
  // `decimals`: of the columns of these keys.
  [[nodiscard]] static Table FromRows(const nlohmann::ordered_json& rows,
                                      const std::map<std::string, int>& decimals = {});

  // `cells` has one entry per column; another count is a programming error (std::invalid_argument).
  void AddRow(std::vector<Cell> cells);

  // Aligned columns under a rule: numbers to the right, text to the left; missing is "-". No colours,
  // no trailing spaces, ends in a newline. Widths count code points.
  [[nodiscard]] std::string Text() const;
  [[nodiscard]] std::string Csv() const;                  // RFC 4180 quoting, full precision
  [[nodiscard]] std::string Tsv() const;                  // tab, newline and backslash escaped by backslash
  [[nodiscard]] nlohmann::ordered_json JsonRows() const;  // flat objects; missing is null
  [[nodiscard]] std::string Html() const;                 // <table>, no attributes but class="num"

  [[nodiscard]] const std::vector<Column>& columns() const { return columns_; }
  [[nodiscard]] const std::vector<std::vector<Cell>>& rows() const { return rows_; }

 private:
  [[nodiscard]] std::vector<bool> NumericColumns() const;

  std::vector<Column> columns_;
  std::vector<std::vector<Cell>> rows_;
};

// A number as a reader wants it: 4 significant digits when decimals is -1, no exponent where avoidable.
[[nodiscard]] std::string FormatNumber(double value, int decimals = -1);

// & < > " ' as entities.
[[nodiscard]] std::string EscapeHtml(std::string_view text);

}  // namespace spillway::report

// SPDX-License-Identifier: Apache-2.0
#include "table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <utility>

namespace spillway::report {

namespace {

using nlohmann::ordered_json;

bool IsMissing(const Cell& cell) {
  const double* real = std::get_if<double>(&cell);
  return std::holds_alternative<std::monostate>(cell) || (real != nullptr && !std::isfinite(*real));
}

bool IsNumber(const Cell& cell) {
  return std::holds_alternative<double>(cell) || std::holds_alternative<std::int64_t>(cell);
}

std::string ForReaders(const Cell& cell, int decimals) {
  if (IsMissing(cell)) return "-";
  if (const auto* text = std::get_if<std::string>(&cell)) return *text;
  if (const auto* real = std::get_if<double>(&cell)) return FormatNumber(*real, decimals);
  if (const auto* integer = std::get_if<std::int64_t>(&cell)) return fmt::format("{}", *integer);
  return std::get<bool>(cell) ? "yes" : "no";
}

std::string ForMachines(const Cell& cell) {
  if (IsMissing(cell)) return "";
  if (const auto* text = std::get_if<std::string>(&cell)) return *text;
  if (const auto* real = std::get_if<double>(&cell)) return fmt::format("{}", *real);
  if (const auto* integer = std::get_if<std::int64_t>(&cell)) return fmt::format("{}", *integer);
  return std::get<bool>(cell) ? "true" : "false";
}

std::size_t CodePoints(std::string_view text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

std::string QuoteCsv(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (char c : text) {
    if (c == '"') quoted += '"';
    quoted += c;
  }
  return quoted + '"';
}

std::string EscapeTsv(const std::string& text) {
  std::string escaped;
  for (char c : text) {
    switch (c) {
      case '\t':
        escaped += "\\t";
        break;
      case '\n':
        escaped += "\\n";
        break;
      case '\r':
        escaped += "\\r";
        break;
      case '\\':
        escaped += "\\\\";
        break;
      default:
        escaped += c;
    }
  }
  return escaped;
}

template <class Escape>
std::string Delimited(const Table& table, const char* separator, const char* line_end, Escape escape) {
  std::string out;
  const char* before = "";
  for (const Column& column : table.columns()) {
    out += before + escape(column.key);
    before = separator;
  }
  out += line_end;
  for (const auto& row : table.rows()) {
    before = "";
    for (const Cell& cell : row) {
      out += before + escape(ForMachines(cell));
      before = separator;
    }
    out += line_end;
  }
  return out;
}

Cell FromJson(const ordered_json& value) {
  if (value.is_boolean()) return value.get<bool>();
  if (value.is_number_integer()) return value.get<std::int64_t>();
  if (value.is_number()) return value.get<double>();
  if (value.is_string()) return value.get<std::string>();
  if (value.is_null()) return std::monostate{};
  return value.dump();
}

const std::string& Heading(const Column& column) { return column.title.empty() ? column.key : column.title; }

}  // namespace

std::string FormatNumber(double value, int decimals) {
  if (!std::isfinite(value)) return "-";
  if (decimals < 0) {
    if (value == 0) return "0";
    const double magnitude = std::floor(std::log10(std::fabs(value)));
    if (magnitude < -6 || magnitude > 14) return fmt::format("{:.3e}", value);
    decimals = static_cast<int>(std::clamp(3 - magnitude, 0.0, 9.0));
    // Whole numbers need no ".000"; measured values keep their zeros so that columns compare.
    if (value == std::floor(value)) decimals = 0;
  }
  std::string text = fmt::format("{:.{}f}", value, decimals);
  if (text.find_first_not_of("-0.") == std::string::npos && text[0] == '-') text.erase(0, 1);  // no "-0.0"
  return text;
}

std::string EscapeHtml(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

Table::Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

Table Table::FromRows(const ordered_json& rows, const std::map<std::string, int>& decimals) {
  std::vector<Column> columns;
  for (const auto& row : rows) {
    for (const auto& [key, value] : row.items()) {
      const bool known = std::any_of(columns.begin(), columns.end(),
                                     [&name = key](const Column& column) { return column.key == name; });
      if (known) continue;
      const auto set = decimals.find(key);
      columns.push_back({key, "", set == decimals.end() ? -1 : set->second});
    }
  }
  Table table(std::move(columns));
  for (const auto& row : rows) {
    std::vector<Cell> cells;
    for (const Column& column : table.columns_) {
      const auto found = row.find(column.key);
      cells.push_back(found == row.end() ? Cell{} : FromJson(*found));
    }
    table.AddRow(std::move(cells));
  }
  return table;
}

void Table::AddRow(std::vector<Cell> cells) {
  if (cells.size() != columns_.size()) {
    throw std::invalid_argument(
        fmt::format("Table::AddRow: {} cells for {} columns", cells.size(), columns_.size()));
  }
  rows_.push_back(std::move(cells));
}

std::vector<bool> Table::NumericColumns() const {
  std::vector<bool> numeric(columns_.size(), false);
  for (std::size_t c = 0; c < columns_.size(); ++c) {
    // A word among numbers, such as "loss", stands with them.
    numeric[c] = std::any_of(rows_.begin(), rows_.end(), [c](const auto& row) { return IsNumber(row[c]); });
  }
  return numeric;
}

std::string Table::Text() const {
  const std::vector<bool> numeric = NumericColumns();
  std::vector<std::vector<std::string>> lines(1);
  for (const Column& column : columns_) lines[0].push_back(Heading(column));
  for (const auto& row : rows_) {
    lines.emplace_back();
    for (std::size_t c = 0; c < row.size(); ++c)
      lines.back().push_back(ForReaders(row[c], columns_[c].decimals));
  }
  std::vector<std::size_t> widths(columns_.size(), 0);
  for (const auto& line : lines) {
    for (std::size_t c = 0; c < line.size(); ++c) widths[c] = std::max(widths[c], CodePoints(line[c]));
  }
  std::string out;
  for (std::size_t l = 0; l < lines.size(); ++l) {
    std::string text;
    for (std::size_t c = 0; c < columns_.size(); ++c) {
      const std::string padding(widths[c] - CodePoints(lines[l][c]), ' ');
      if (c > 0) text += "  ";
      text += numeric[c] ? padding + lines[l][c] : lines[l][c] + padding;
    }
    text.erase(text.find_last_not_of(' ') + 1);
    out += text + '\n';
    if (l > 0) continue;
    for (std::size_t c = 0; c < columns_.size(); ++c)
      out += (c > 0 ? "  " : "") + std::string(widths[c], '-');
    out += '\n';
  }
  return out;
}

std::string Table::Csv() const { return Delimited(*this, ",", "\r\n", QuoteCsv); }
std::string Table::Tsv() const { return Delimited(*this, "\t", "\n", EscapeTsv); }

ordered_json Table::JsonRows() const {
  ordered_json rows = ordered_json::array();
  for (const auto& row : rows_) {
    ordered_json object = ordered_json::object();
    for (std::size_t c = 0; c < row.size(); ++c) {
      ordered_json& value = object[columns_[c].key];
      if (IsMissing(row[c])) continue;
      std::visit(
          [&value](const auto& held) {
            if constexpr (!std::is_same_v<std::decay_t<decltype(held)>, std::monostate>) value = held;
          },
          row[c]);
    }
    rows.push_back(std::move(object));
  }
  return rows;
}

std::string Table::Html() const {
  const std::vector<bool> numeric = NumericColumns();
  const auto open = [&](const char* tag, std::size_t c) {
    return fmt::format("<{}{}>", tag, numeric[c] ? " class=\"num\"" : "");
  };
  std::string out = "<table>\n<thead><tr>";
  for (std::size_t c = 0; c < columns_.size(); ++c)
    out += open("th", c) + EscapeHtml(Heading(columns_[c])) + "</th>";
  out += "</tr></thead>\n<tbody>\n";
  for (const auto& row : rows_) {
    out += "<tr>";
    for (std::size_t c = 0; c < row.size(); ++c)
      out += open("td", c) + EscapeHtml(ForReaders(row[c], columns_[c].decimals)) + "</td>";
    out += "</tr>\n";
  }
  return out + "</tbody>\n</table>\n";
}

}  // namespace spillway::report

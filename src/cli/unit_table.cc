// SPDX-License-Identifier: Apache-2.0
#include "unit_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "core/report.h"

namespace spillway::command {
namespace {

using nlohmann::json;
using report::Cell;
using report::Column;

std::string Name(const json& unit) {
  return fmt::format("{}/{}/{}", unit.at("pool").get<std::string>(), unit.at("server").get<std::string>(),
                     unit.at("unit").get<std::string>());
}

// Of a failing unit that is not taken out.
std::string WhyKept(const json& failing) {
  const std::string kept = failing.contains("kept") && failing["kept"].is_string() ? failing["kept"] : "half";
  if (failing.value("excused", false)) return ", kept in: it answers its checks)";
  if (kept == "common") return ", kept in: nearly all of the pool answer errors)";
  if (kept == "no_new_flows") return ")";
  return ", kept in: at most half of the pool is taken out)";
}

// What is remarkable about a unit, in words.
std::string State(const json& unit) {
  std::string text = unit.at("status").get<std::string>();
  if (unit.at("ejected").get<bool>()) text += " ejected";
  if (unit.at("silent").get<bool>()) text += " silent";
  if (unit.at("busy").get<bool>()) text += " busy";
  // Absent: of a spillwayd older than this program.
  if (const json failing = unit.value("failing", json()); failing.is_object()) {
    text += " failing (" + failing.at("reason").get<std::string>();
    if (failing.at("taken_out").get<bool>())
      text += fmt::format(", out for {:.1f} s)", failing.at("since_ms").get<double>() / 1e3);
    else
      text += WhyKept(failing);
  }
  if (!unit.at("resolved").get<bool>()) text += " unresolved";
  return text;
}

bool AnyChecked(const json& units) {
  return std::any_of(units.begin(), units.end(),
                     [](const json& unit) { return !unit.at("health").is_null(); });
}

void AddHealthColumns(std::vector<Column>& columns) {
  columns.push_back({"health", "HEALTH"});
  columns.push_back({"health_s", "SINCE [s]", 1});
  columns.push_back({"reason", "WHY"});
}

void AddHealthCells(const json& unit, std::vector<Cell>& cells) {
  const json& health = unit.at("health");
  if (health.is_null()) {
    cells.resize(cells.size() + 3);
    return;
  }
  cells.push_back(health.at("state").get<std::string>());
  cells.push_back(health.at("state_s").get<double>());
  cells.push_back(health.at("reason").get<std::string>());
}

Cell Reported(const json& unit, Cell value) { return unit.at("report_age_ms").is_null() ? Cell() : value; }

Cell Learnt(double ms) { return ms == 0 ? Cell() : Cell(ms); }

std::vector<Column> LoadColumns() {
  return {{"unit", "UNIT"},
          {"kind", "KIND"},
          {"address", "ADDRESS"},
          {"state", "STATE"},
          {"capacity", "CAPACITY"},
          {"load_pct", "LOAD [%]", 0},
          {"queue", "QUEUE"},
          {"latency_ms", "LATENCY [ms]", 3},
          {"base_ms", "BASE [ms]", 3},
          {"slot_ms", "SLOT [ms]", 3},
          {"report_age_ms", "REPORT AGE [ms]", 0}};
}

std::vector<Cell> LoadCells(const json& unit) {
  return {Name(unit),
          unit.at("kind").get<std::string>(),
          unit.at("address").get<std::string>(),
          State(unit),
          unit.at("capacity").get<double>(),
          Reported(unit, unit.at("level").get<double>() * 100 / SPW_LEVEL_THRESHOLD),
          Reported(unit, unit.at("queue").get<int64_t>()),
          Reported(unit, unit.at("latency_us").get<double>() / 1000),
          Learnt(unit.at("base_us").get<double>() / 1000),
          Learnt(unit.at("slot_us").get<double>() / 1000),
          Reported(unit, unit.at("report_age_ms").is_null() ? 0.0 : unit.at("report_age_ms").get<double>())};
}

}  // namespace

report::Table UnitTable(const json& units) {
  auto columns = LoadColumns();
  columns.push_back({"ring_pct", "RING [%]", 1});
  columns.push_back({"packets", "PACKETS"});
  columns.push_back({"new_flows", "NEW FLOWS"});
  const bool checked = AnyChecked(units);
  if (checked) AddHealthColumns(columns);
  report::Table table(std::move(columns));
  for (const json& unit : units) {
    auto cells = LoadCells(unit);
    cells.push_back(unit.at("ring_share").get<double>() * 100);
    cells.push_back(unit.at("packets").get<int64_t>());
    cells.push_back(unit.at("new_flows").get<int64_t>());
    if (checked) AddHealthCells(unit, cells);
    table.AddRow(std::move(cells));
  }
  return table;
}

report::Table UnitRateTable(const json& before, const json& after, double seconds) {
  auto columns = LoadColumns();
  columns.push_back({"packets_per_s", "PACKETS/s", 0});
  columns.push_back({"mbit_per_s", "Mbit/s", 1});
  columns.push_back({"new_flows_per_s", "NEW FLOWS/s", 0});
  const bool checked = AnyChecked(after);
  if (checked) AddHealthColumns(columns);
  report::Table table(std::move(columns));
  std::map<std::string, const json*> earlier;
  for (const json& unit : before) earlier[Name(unit)] = &unit;
  for (const json& unit : after) {
    const auto found = earlier.find(Name(unit));
    const auto rate = [&](const char* key, double scale) -> Cell {
      if (found == earlier.end() || seconds <= 0) return {};
      return (unit.at(key).get<double>() - found->second->at(key).get<double>()) * scale / seconds;
    };
    auto cells = LoadCells(unit);
    cells.push_back(rate("packets", 1));
    cells.push_back(rate("bytes", 8e-6));
    cells.push_back(rate("new_flows", 1));
    if (checked) AddHealthCells(unit, cells);
    table.AddRow(std::move(cells));
  }
  return table;
}

}  // namespace spillway::command

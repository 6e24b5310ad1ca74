// SPDX-License-Identifier: Apache-2.0
#include "bench/switch/present.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "model/pool.h"
#include "report/chart.h"
#include "report/file.h"
#include "report/html_page.h"
#include "report/percentile.h"

namespace spillway::bench {
namespace {

using nlohmann::ordered_json;

std::string TimeKey(Class row_class) {
  if (row_class == Class::kNew) return "new_flow_ns";
  if (row_class == Class::kFirstAck) return "first_ack_ns";
  return row_class == Class::kReport ? "report_ns" : "established_ns";
}

bool HasEntry(const Row& row) {
  return row.row_class == Class::kTcpDeviating || row.row_class == Class::kUdpAffinity ||
         row.row_class == Class::kFirstAck || (row.row_class == Class::kNew && row.packet == Packet::kV4Udp);
}

ordered_json MakeRow(const RowResult& result) {
  const Row& row = result.row;
  const report::Spread floor = report::SpreadOf(result.floor_ns), total = report::SpreadOf(result.total_ns);
  ordered_json json;
  json["class"] = ToString(row.row_class);
  json["packet"] = ToString(row.packet);
  json["flows"] = row.row_class == Class::kNew || row.row_class == Class::kFirstAck ? ordered_json()
                                                                                    : ordered_json(row.flows);
  json["entries"] = row.entries;
  json["evicted"] = result.evicted;
  json["mode"] = row.row_class == Class::kReport ? ordered_json() : ordered_json(model::ToString(row.mode));
  json["policy"] =
      row.row_class == Class::kReport ? ordered_json() : ordered_json(model::ToString(row.policy));
  json["floor_ns"] = floor.min;
  json["floor_ns_median"] = floor.median;
  json[TimeKey(row.row_class)] = total.min;
  json[TimeKey(row.row_class) + "_median"] = total.median;
  json["above_floor_ns"] = total.min - floor.min;
  json["above_floor_ns_median"] = total.median - floor.median;
  if (row.row_class != Class::kReport) json["bytes_per_flow"] = HasEntry(row) ? sizeof(__u64) : 0;
  if (row.aim_ns) {
    json["aim_ns"] = *row.aim_ns;
    json["within_aim"] = total.min - floor.min <= *row.aim_ns;
  }
  return json;
}

// The slowest row of a class and packet over the fastest: what the number of flows costs.
void AddRatios(report::Document& document, const std::vector<RowResult>& results) {
  std::map<std::string, std::pair<double, double>> range;
  for (const RowResult& result : results) {
    const Row& row = result.row;
    if (row.row_class == Class::kNew || row.row_class == Class::kFirstAck || row.row_class == Class::kReport)
      continue;
    if (row.row_class == Class::kTcpDefault && row.entries != 0) continue;
    const double above = report::SpreadOf(result.total_ns).min - report::SpreadOf(result.floor_ns).min;
    const std::string name =
        fmt::format("{}_{}_{}", ToString(row.row_class), ToString(row.packet), model::ToString(row.mode));
    auto [at, is_new] = range.try_emplace(name, above, above);
    at->second.first = std::min(at->second.first, above);
    at->second.second = std::max(at->second.second, above);
  }
  for (const auto& [name, ends] : range)
    document.SetRatio(name + "_slowest_to_fastest", ends.second / ends.first);
}

report::Chart MakeChart(const report::Document& document) {
  report::Chart chart{.title = "Cost of a packet of an established flow, above the floor",
                      .note = "Minimum over all rounds; the band reaches to the median",
                      .x = {.title = "Distinct flows", .unit = "", .log = true},
                      .y = {.title = "Time above the floor", .unit = "ns", .min = 0},
                      .series = {}};
  for (const ordered_json& row : document.rows()) {
    if (!row.contains("established_ns") || (row["class"] == "tcp-default" && row["entries"] != 0)) continue;
    const auto text = [&](const char* key) { return row[key].get<std::string>(); };
    const std::string name = fmt::format("{} {} {}", text("class"), text("packet"), text("mode"));
    auto at = std::find_if(chart.series.begin(), chart.series.end(),
                           [&](const report::Series& series) { return series.name == name; });
    if (at == chart.series.end()) at = chart.series.insert(at, report::Series{.name = name, .points = {}});
    const double least = row["above_floor_ns"];
    at->points.push_back({.x = row["flows"],
                          .y = least,
                          .low = least,
                          .high = std::max(least, row["above_floor_ns_median"].get<double>())});
  }
  return chart;
}

}  // namespace

report::Document MakeDocument(const std::vector<RowResult>& results, int rounds) {
  report::Document document("switch");
  document.SetRounds(rounds);
  for (const RowResult& result : results) document.AddRow(MakeRow(result));
  AddRatios(document, results);
  return document;
}

report::Table MakeTable(const report::Document& document) {
  report::Table table({{"class", ""},
                       {"packet", ""},
                       {"flows", ""},
                       {"entries", ""},
                       {"mode", ""},
                       {"policy", ""},
                       {"floor_ns", "floor [ns]", 0},
                       {"total_ns", "total [ns]", 0},
                       {"above_floor_ns", "above floor [ns]", 0},
                       {"above_floor_ns_median", "(median)", 0},
                       {"aim_ns", "aim [ns]", 0},
                       {"bytes_per_flow", "bytes/flow"}});
  for (const ordered_json& row : document.rows()) {
    const auto text = [&](const char* key) {
      return row[key].is_null() ? report::Cell() : report::Cell(row[key].get<std::string>());
    };
    const auto count = [&](const char* key) {
      return !row.contains(key) || row[key].is_null() ? report::Cell()
                                                      : report::Cell(row[key].get<std::int64_t>());
    };
    const auto real = [&](const char* key) {
      return row.contains(key) ? report::Cell(row[key].get<double>()) : report::Cell();
    };
    const char* total = row.contains("established_ns") ? "established_ns"
                        : row.contains("new_flow_ns")  ? "new_flow_ns"
                        : row.contains("first_ack_ns") ? "first_ack_ns"
                                                       : "report_ns";
    table.AddRow({text("class"), text("packet"), count("flows"), count("entries"), text("mode"),
                  text("policy"), real("floor_ns"), real(total), real("above_floor_ns"),
                  real("above_floor_ns_median"), real("aim_ns"), count("bytes_per_flow")});
  }
  return table;
}

Result<void> WritePage(const report::Document& document, const std::string& folder) {
  const report::Chart chart = MakeChart(document);
  report::HtmlPage page("What a packet costs in the switch",
                        "The switch's BPF program under BPF_PROG_TEST_RUN: each packet restored, moved to "
                        "the next flow, and its answer checked. The floor is the same without the switch.");
  page.AddChart(chart);
  page.AddTable("All rows", MakeTable(document));
  page.Embed(document, "switch.json");
  return document.Write(folder + "/switch.json")
      .and_then([&] { return report::WriteFile(folder + "/switch.svg", report::RenderSvg(chart)); })
      .and_then([&] { return page.Write(folder + "/switch.html"); });
}

}  // namespace spillway::bench

// SPDX-License-Identifier: Apache-2.0
#include "bench/dispatch/dispatch_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "report/table.h"

namespace spillway::bench {
namespace {

using nlohmann::ordered_json;
using Rows = std::vector<ordered_json>;

constexpr double kCalm = 1.5;      // rounds of an idle machine differ by less
constexpr double kNoMore = 100;    // of a scatter there is nothing more to tell
constexpr double kNearBest = 0.9;  // of the best rate
const std::string kBurst = "burst ";

Rows PartOf(const report::Document& document, const char* part) {
  Rows rows;
  for (const ordered_json& row : document.rows())
    if (row["part"] == part) rows.push_back(row);
  return rows;
}

double Number(const ordered_json& row, const char* key) { return row.at(key).get<double>(); }

report::Cell NumberOrNone(const ordered_json& row, const char* key) {
  return row.contains(key) && row[key].is_number() ? report::Cell(row[key].get<double>()) : report::Cell();
}

std::string Range(const ordered_json& row) {
  return fmt::format("{:.2f} to {:.2f}", Number(row, "mevents_per_s_min"), Number(row, "mevents_per_s_max"));
}

// The figures of an engine's or a guideline's row, behind what it is called.
void AddFigures(const ordered_json& row, std::vector<report::Cell>& cells) {
  cells.emplace_back(Number(row, "mevents_per_s"));
  cells.emplace_back(Range(row));
  for (const char* key : {"ns_per_event", "p50_us", "p99_us", "light_p99_us", "cpu_s_per_mevent"})
    cells.push_back(NumberOrNone(row, key));
}

std::vector<report::Column> WithFigures(std::vector<report::Column> columns) {
  columns.insert(columns.end(), {{"mevents_per_s", "Mevents/s", 2},
                                 {"range", "of the rounds"},
                                 {"ns_per_event", "ns/event"},
                                 {"p50_us", "p50 us"},
                                 {"p99_us", "p99 us"},
                                 {"light_p99_us", "p99 us alone"},
                                 {"cpu_s_per_mevent", "CPU us/event"}});
  return columns;
}

std::string EngineText(const Rows& rows) {
  if (rows.empty()) return "";
  report::Table table(WithFigures({{"engine", "engine"}, {"kind", "kind"}, {"burst", "burst", 0}}));
  for (const ordered_json& row : rows) {
    std::vector<report::Cell> cells = {row["engine"].get<std::string>(), row["kind"].get<std::string>(),
                                       Number(row, "burst")};
    AddFigures(row, cells);
    table.AddRow(std::move(cells));
  }
  return table.Text() +
         "p50, p99: at half of the row's own rate; alone: single events, one every 10 us. --json has more.\n";
}

// How far the rounds of one of Spillway's own rows lie apart, at most; infinite where one had no event.
double Scatter(const report::Document& document) {
  double most = 1;
  for (const ordered_json& row : document.rows())
    if (row.contains("engine") && row["engine"] == "native" && Number(row, "mevents_per_s_max") > 0)
      most = std::max(most, Number(row, "mevents_per_s_max") / Number(row, "mevents_per_s_min"));
  return most;
}

std::string ScatterText(double scatter) {
  if (scatter <= kCalm) return "";
  return fmt::format(
      "\nfigures scatter by {}x: another program uses the CPUs; measure on an idle machine\n",
      scatter > kNoMore ? fmt::format("more than {:g}", kNoMore) : fmt::format("up to {:.1f}", scatter));
}

// "atomic" at burst 32, which guidelines change one thing of; null: it did not run.
const ordered_json* Plain(const Rows& engines) {
  const auto plain = std::find_if(engines.begin(), engines.end(), [](const ordered_json& row) {
    return row["engine"] == "native" && row["kind"] == "atomic" && row["burst"] == 32;
  });
  return plain == engines.end() ? nullptr : &*plain;
}

// Which burst is enough, and what costs more than a tenth of the rate.
std::string Advice(const Rows& guidelines, const ordered_json* plain) {
  Rows bursts;
  if (plain != nullptr) bursts.push_back(*plain);
  for (const ordered_json& row : guidelines)
    if (row["varied"].get<std::string>().starts_with(kBurst)) bursts.push_back(row);
  std::vector<std::string> advice;
  if (bursts.size() > 1) {
    std::sort(bursts.begin(), bursts.end(),
              [](const auto& a, const auto& b) { return Number(a, "burst") < Number(b, "burst"); });
    const auto best = std::max_element(bursts.begin(), bursts.end(), [](const auto& a, const auto& b) {
      return Number(a, "mevents_per_s") < Number(b, "mevents_per_s");
    });
    const auto enough = std::find_if(bursts.begin(), bursts.end(), [&](const ordered_json& row) {
      return Number(row, "mevents_per_s") >= kNearBest * Number(*best, "mevents_per_s");
    });
    advice.push_back(
        enough == best
            ? fmt::format("the best burst is {:.0f}", Number(*best, "burst"))
            : fmt::format("bursts of {:.0f} do, with {:.0f} % of the best rate", Number(*enough, "burst"),
                          100 * Number(*enough, "mevents_per_s") / Number(*best, "mevents_per_s")));
  }
  size_t others = 0;
  std::vector<std::string> costly;
  for (const ordered_json& row : guidelines) {
    const auto varied = row["varied"].get<std::string>();
    if (plain == nullptr || varied.starts_with(kBurst)) continue;
    others++;
    const double kept = Number(row, "mevents_per_s") / Number(*plain, "mevents_per_s");
    if (kept < kNearBest) costly.push_back(fmt::format("{} ({:.0f} %)", varied, 100 * (1 - kept)));
  }
  if (others > 0)
    advice.push_back(costly.empty() ? "no other change costs a tenth of the rate"
                                    : fmt::format("slower by a tenth or more: {}", fmt::join(costly, ", ")));
  return advice.empty() ? "" : fmt::format("On this machine {}.\n", fmt::join(advice, "; "));
}

std::string GuidelineText(const Rows& rows, const ordered_json* plain, bool is_calm) {
  if (rows.empty()) return "";
  report::Table table(WithFigures({{"varied", "changed"}}));
  for (const ordered_json& row : rows) {
    std::vector<report::Cell> cells = {row["varied"].get<std::string>()};
    AddFigures(row, cells);
    table.AddRow(std::move(cells));
  }
  return "\nGuidelines for this machine (native atomic, burst 32, one thing changed at a time):\n\n" +
         table.Text() + (is_calm ? Advice(rows, plain) : "No advice: the rounds scatter too much.\n");
}

std::string EnergyText(const ordered_json& row) {
  const double cores = Number(row, "host_cores"), watts = Number(row, "host_w");
  const double host_watts = Number(row, "baseline_w");
  const std::string text = fmt::format(
      "\nEnqueueing {:g} million events a second, modelled (docs/bench.md): "
      "{:.1f} of the host's cores, {:.0f} W,\nor {:.1f} % of the SmartNIC's, {:.1f} W.",
      Number(row, "mevents_per_s"), cores, watts, Number(row, "nic_share_pct"), Number(row, "nic_w"));
  if (watts <= host_watts)
    return text + fmt::format(" The SmartNIC saves {:.1f} % of the host's {:.0f} W.\n",
                              Number(row, "saving_pct"), host_watts);
  return text +
         fmt::format(
             "\nThe whole host has {:.0f} cores and {:.0f} W: it cannot enqueue so many at this CPU time "
             "per event; no saving.\n",
             cores * host_watts / watts, host_watts);
}

std::string ScalingText(const Rows& rows) {
  if (rows.empty()) return "";
  report::Table table({{"engine", "engine"},
                       {"kind", "kind"},
                       {"producers", "producers", 0},
                       {"workers", "workers", 0},
                       {"service_ns", "busy ns/event", 0},
                       {"mevents_per_s", "Mevents/s", 2},
                       {"range", "of the rounds"},
                       {"of_ideal", "of ideal", 2}});
  for (const ordered_json& row : rows)
    table.AddRow({row["engine"].get<std::string>(), row["kind"].get<std::string>(), Number(row, "producers"),
                  Number(row, "workers"), Number(row, "service_ns"), Number(row, "mevents_per_s"), Range(row),
                  NumberOrNone(row, "of_ideal")});
  return "\nSeveral threads:\n\n" + table.Text();
}

}  // namespace

std::string DispatchText(const report::Document& document) {
  const Rows engines = PartOf(document, "engines");
  const double scatter = Scatter(document);
  std::string text =
      EngineText(engines) + GuidelineText(PartOf(document, "guideline"), Plain(engines), scatter <= kCalm);
  for (const ordered_json& row : PartOf(document, "energy")) text += EnergyText(row);
  text += ScalingText(PartOf(document, "scaling")) + "\n";
  const ordered_json json = document.Json();
  for (const auto& [name, value] : json["ratios"].items())
    text += fmt::format("{:<45} {:.2f}\n", name, value.get<double>());
  return text + ScatterText(scatter);
}

}  // namespace spillway::bench

// SPDX-License-Identifier: Apache-2.0
#include "bench/gateway/present.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "report/chart.h"
#include "report/file.h"
#include "report/html_page.h"

namespace spillway::bench {
namespace {

using nlohmann::ordered_json;

std::string TitleOf(const ordered_json& row) {
  return fmt::format("{} bytes, {:g} us kernels, {} {}", row["bytes"].get<size_t>(),
                     row["kernel_us"].get<double>(), row["concurrency"].get<uint32_t>(),
                     row["concurrency"] == 1 ? "client" : "clients");
}

// One for each size, kernel and concurrency.
std::vector<report::Chart> Charts(const report::Document& document) {
  std::vector<report::Chart> charts;
  for (const ordered_json& row : document.rows()) {
    const std::string title = TitleOf(row);
    if (charts.empty() || charts.back().title != title)
      charts.push_back({.title = title,
                        .note = "Median of the rounds, the band from the least to the most; dashed: p99",
                        .x = {.title = "CPU of the host that others take", .unit = "%", .min = 0},
                        .y = {.title = "Time of a request", .unit = "us", .log = true},
                        .series = {}});
    std::vector<report::Series>& series = charts.back().series;
    for (const std::string percentile : {"p50", "p99"}) {
      const std::string name = row["mode"].get<std::string>() + " " + percentile;
      auto at = std::find_if(series.begin(), series.end(),
                             [&](const report::Series& one) { return one.name == name; });
      if (at == series.end()) {
        const bool tail = percentile == "p99";
        at = series.insert(at, {.name = name,
                                .points = {},
                                .dashed = tail,
                                .like = tail ? static_cast<int>(series.size()) - 1 : -1});
      }
      at->points.push_back({.x = row["load_pct"].get<double>(),
                            .y = row[percentile + "_us"],
                            .low = row[percentile + "_min_us"],
                            .high = row[percentile + "_max_us"]});
    }
  }
  return charts;
}

}  // namespace

std::string GatewayText(const report::Document& document) {
  std::string text, title;
  for (const auto& row : document.rows()) {
    if (const std::string now = TitleOf(row); now != title) {
      title = now;
      text += fmt::format("{}, awake: {}\n{:<18} {:>5} {:>9} {:>9} {:>11} {:>9} {:>9} {:>12}\n", title,
                          row["awake"].get<std::string>(), "mode", "load", "p50 us", "p99 us", "requests/s",
                          "host us", "NIC us", "gateway us");
    }
    text += fmt::format(
        "{:<18} {:>4}% {:>9.1f} {:>9.1f} {:>11.0f} {:>9.1f} {:>9.1f} {:>12}\n",
        row["mode"].get<std::string>(), row["load_pct"].get<int>(), row["p50_us"].get<double>(),
        row["p99_us"].get<double>(), row["requests_per_s"].get<double>(), row["host_cpu_us"].get<double>(),
        row["nic_cpu_us"].get<double>(),
        row.contains("gateway_p50_us") ? fmt::format("{:.1f}", row["gateway_p50_us"].get<double>()) : "");
  }
  const ordered_json ratios = document.Json()["ratios"];
  for (const auto& [name, value] : ratios.items())
    if (name.starts_with("cuda_slice_us"))
      text += fmt::format("a slice on the GPU alone takes {:.0f} us a request\n", value.get<double>());
  return text;
}

Result<void> WriteGatewayPage(const report::Document& document, const std::string& folder) {
  report::HtmlPage page("Requests through four designs",
                        "tcp-host: TCP, the host's CPU receives, decides, copies. host-memory: one-sided "
                        "writes into the host's memory, the host decides and copies. direct: the client "
                        "writes the slice's memory. conspirator: the gateway. Every answer was checked.");
  const std::vector<report::Chart> charts = Charts(document);
  for (const report::Chart& chart : charts) page.AddChart(chart);
  page.Embed(document, "gateway.json");
  return document.Write(folder + "/gateway.json")
      .and_then([&] { return report::WriteFile(folder + "/gateway.svg", report::RenderSvg(charts.front())); })
      .and_then([&] { return page.Write(folder + "/gateway.html"); });
}

}  // namespace spillway::bench

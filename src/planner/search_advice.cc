// SPDX-License-Identifier: Apache-2.0
#include "planner/search_advice.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "planner/catalogue_reader.h"

namespace spillway::planner {
namespace {

// Up to four digits, or to whole ones.
std::string RoundedUp(double value) {
  const int decimals = std::max(0, 3 - static_cast<int>(std::floor(std::log10(value))));
  const double scale = std::pow(10, decimals);
  const double up = std::ceil(value * scale * (1 - kRounding)) / scale;
  std::string text = fmt::format("{:.{}f}", up, decimals);
  if (decimals > 0) text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text;
}

// "--max-cost to 12001 USD"; empty for a limit that is no option's.
std::string Raised(const Check& check) {
  if (!(check.value > 0)) return "";
  switch (check.limit) {
    case Limit::kSlowdown:
      return "--slo to " + RoundedUp(check.value);
    case Limit::kCost:
      return "--max-cost to " + RoundedUp(check.value) + " USD";
    case Limit::kPower:
      return "--max-power to " + RoundedUp(check.value) + " W";
    default:
      return "";
  }
}

bool HasPriceOf(const Node& node, const Node& shipped) {
  return node.price_usd == shipped.price_usd && node.power_w == shipped.power_w &&
         node.sources == shipped.sources;
}

}  // namespace

std::string WayOut(const Found& found) {
  std::vector<std::string> ways;
  for (const Obstacle& obstacle : found.obstacles)
    if (std::string way = Raised(obstacle.check); !way.empty()) ways.push_back(std::move(way));
  if (!ways.empty()) return fmt::format("to keep the other limits, raise {}", fmt::join(ways, ", or "));
  if (!found.conflict) return "";
  for (const Check& check : found.conflict->broken) {
    std::string way = Raised(check);
    if (way.empty()) return "";  // of all that must give way together, no option raises this one
    ways.push_back(std::move(way));
  }
  return ways.empty() ? "" : fmt::format("for that mix, raise {}", fmt::join(ways, ", and "));
}

std::string PlaceholderPrices(const PlanInput& input) {
  std::vector<size_t> used = input.workload.space.nodes;
  for (const Group& group : input.workload.baseline.groups) used.push_back(group.node);
  std::vector<std::string> own, names;
  for (const size_t place : used) {
    const Node& node = input.catalogue.nodes[place];
    const Node* shipped = ShippedCatalogue().FindNode(node.name);
    std::vector<std::string>& those = shipped != nullptr && HasPriceOf(node, *shipped) ? names : own;
    if (std::find(those.begin(), those.end(), node.name) == those.end()) those.push_back(node.name);
  }
  if (names.empty()) return "";
  return fmt::format(
      "prices and power{} are placeholders of the built-in catalogue (the papers'): give your own with "
      "--catalogue",
      own.empty() ? "" : fmt::format(" of {}", fmt::join(names, ", ")));
}

}  // namespace spillway::planner

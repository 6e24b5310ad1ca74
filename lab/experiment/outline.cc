// SPDX-License-Identifier: Apache-2.0
#include "outline.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "calibration.h"

namespace spillway::lab {
namespace {

// Beyond its seconds, of a slice: starting the client, last answers, waiting until units are idle.
constexpr double kBetweenSlices = 0.5;

struct Times {
  double search = 0;                  // seconds
  double slices = 0, all_slices = 0;  // seconds, without the further levels and with them
  int fewest = 0, most = 0;           // slices
};

Times TimesOf(const ExperimentSpec& spec) {
  Times times;
  // The unloaded latency, which may make them longer, is known in advance only where the file says it.
  const double search_slice =
      std::max(spec.seconds, kSearchSliceUnloaded * spec.unloaded_ms.value_or(0) / 1e3);
  if (!spec.capacity_rps) times.search = kSearchSlices * (search_slice + kBetweenSlices);
  const auto levels = static_cast<int>(spec.load_pct.size());
  const int of_a_level = static_cast<int>(spec.policies.size()) * spec.rounds;
  times.fewest = levels * of_a_level;
  times.most = static_cast<int>(spec.MostLoads()) * of_a_level;
  times.slices = times.fewest * (spec.seconds + kBetweenSlices);
  times.all_slices = times.most * (spec.seconds + kBetweenSlices);
  return times;
}

double RoundedTo(double step, double value) { return std::max(step, step * std::round(value / step)); }

// "about 40 s", "about 4 min", "about 3 to 5 min".
std::string About(double least, double most) {
  constexpr double kMinute = 60, kSecondsUpTo = 90;
  const bool seconds = most <= kSecondsUpTo;
  const double unit = seconds ? 1 : kMinute, step = seconds ? 5 : 1;
  const double from = RoundedTo(step, least / unit), to = RoundedTo(step, most / unit);
  return fmt::format("about {}{:.0f} {}", from == to ? "" : fmt::format("{:.0f} to ", from), to,
                     seconds ? "s" : "min");
}

// "96 slices of 1.5 s", "64 to 128 slices".
std::string SlicesOf(const std::vector<ExperimentSpec>& specs, const Times& sum) {
  const bool alike = std::all_of(specs.begin(), specs.end(), [&](const ExperimentSpec& spec) {
    return spec.seconds == specs.front().seconds;
  });
  return fmt::format("{}{} slices{}", sum.fewest == sum.most ? "" : fmt::format("{} to ", sum.fewest),
                     sum.most, alike ? fmt::format(" of {:g} s", specs.front().seconds) : "");
}

}  // namespace

std::string Outline(const std::vector<ExperimentSpec>& specs) {
  Times sum;
  bool units = false;
  for (const ExperimentSpec& spec : specs) {
    const Times times = TimesOf(spec);
    sum.search += times.search;
    sum.slices += times.slices;
    sum.all_slices += times.all_slices;
    sum.fewest += times.fewest;
    sum.most += times.most;
    units = units || spec.predict;
  }
  std::vector<std::string> steps;
  if (units) steps.emplace_back("what each kind of unit does alone is measured");
  if (sum.search > 0)
    steps.push_back(fmt::format("the capacity under {} is searched for (usually {})",
                                model::ToString(specs.front().capacity_under),
                                About(sum.search, sum.search)));
  steps.push_back(SlicesOf(specs, sum));
  return fmt::format("{}{}{}: {}{}",
                     specs.size() == 1 ? "" : fmt::format("{} experiments in turn: ", specs.size()),
                     steps.size() == 1 ? "" : "first ", fmt::join(steps, ", then "),
                     About(sum.search + sum.slices, sum.search + sum.all_slices),
                     units ? " and the units' measurement" : "");
}

}  // namespace spillway::lab

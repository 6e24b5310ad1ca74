// SPDX-License-Identifier: Apache-2.0
#include "planner/search_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>

#include "planner/search_advice.h"
#include "planner/search_space.h"

namespace spillway::planner {
namespace {

constexpr size_t kFrontLines = 8, kInfluenceLines = 8;
constexpr size_t kFrontRows = 500;  // of a longer front, so many in even steps are shown

// Of a front, at most `most` points: its ends and even steps between.
std::vector<FrontPoint> Thinned(const std::vector<FrontPoint>& front, size_t most) {
  if (front.size() <= most) return front;
  std::vector<FrontPoint> some;
  for (size_t i = 0; i < most; i++) some.push_back(front[i * (front.size() - 1) / (most - 1)]);
  return some;
}

std::string Usd(double usd) { return fmt::format("{:.0f} USD", usd); }

std::string Signed(std::optional<double> share) {
  return share ? fmt::format("{:+.1f} %", 100 * *share) : "no mix";
}

double ObjectiveOf(const Found& found, const Mix& mix) {
  const Evaluation evaluation = found.model.Evaluate(mix);
  return found.objective == Objective::kCost ? evaluation.CostUsd() : evaluation.Energy();
}

nlohmann::ordered_json JsonRow(const Found& found, const char* kind, const Mix& mix) {
  const Evaluation now = found.model.Evaluate(mix);
  const Evaluation before = found.model.Evaluate(found.model.input().workload.baseline);
  return {{"kind", kind},
          {"objective", ObjectiveOf(found, mix)},
          {"slowdown", now.slowdown},
          {"cost_usd", now.CostUsd()},
          {"power_w", now.PowerW()},
          {"energy", now.Energy() / before.Energy()},
          {"mix", Describe(found.model.input().catalogue, mix)}};
}

std::string Summary(const Found& found, const Mix& mix) {
  const Evaluation now = found.model.Evaluate(mix);
  const Evaluation before = found.model.Evaluate(found.model.input().workload.baseline);
  return fmt::format(
      "{}, {:.0f} W, slowdown {:.3f}; {:.2f}x cheaper and {:.2f}x less energy than the baseline",
      Usd(now.CostUsd()), now.PowerW(), now.slowdown, before.CostUsd() / now.CostUsd(),
      before.Energy() / now.Energy());
}

std::vector<std::string> NamesOf(const PlanInput& input) {
  std::vector<std::string> names;
  for (const size_t node : input.workload.space.nodes) names.push_back(input.catalogue.nodes[node].name);
  return names;
}

// The kinds of node for which there is no candidate at all, and why, a line each; "" where each has one.
std::string MissingText(const ClusterModel& model) {
  const PlanInput& input = model.input();
  std::string text;
  for (const NodeKind kind : KindsOf(input.workload)) {
    const bool any =
        kind == NodeKind::kLiteCompute ? LiteComputeChoices(model) > 0 : !DeviceGroups(model, kind).empty();
    if (any) continue;
    const auto& nodes = input.workload.space.nodes;
    const bool serves = std::any_of(nodes.begin(), nodes.end(),
                                    [&](size_t node) { return input.catalogue.nodes[node].Serves(kind); });
    const char* why = !serves ? "has it among its kinds"
                      : NodesFor(model, kind).empty()
                          ? "has a throughput for each yardstick that the workload names"
                          : "may carry as many devices as are asked for";
    text += fmt::format("  no node for {}: of search.nodes ({}) none {}\n", ToString(kind),
                        fmt::join(NamesOf(input), ", "), why);
  }
  return text;
}

std::string InfeasibleText(const Found& found) {
  const Catalogue& catalogue = found.model.input().catalogue;
  std::string text = "no candidate meets every limit.\n";
  for (const Obstacle& obstacle : found.obstacles)
    text += fmt::format("  {} cannot be met: {}; at the least {:.3f} times its limit, by {}\n",
                        ToString(obstacle.limit), Spell(obstacle.check), obstacle.factor,
                        Describe(catalogue, obstacle.mix.mix));
  const std::string way_out = WayOut(found).empty() ? "" : "  " + WayOut(found) + "\n";
  if (!found.obstacles.empty()) return text + way_out;
  if (!found.conflict) {
    const std::string missing = MissingText(found.model);
    return text +
           (missing.empty() ? "  even a million times every limit does not help: a limit is 0\n" : missing);
  }
  text += fmt::format("  no single limit is at fault; with all of them {:.3f} times as wide, {} would do:\n",
                      found.conflict->factor, Describe(catalogue, found.conflict->mix.mix));
  for (const Check& check : found.conflict->broken) text += fmt::format("    {}\n", Spell(check));
  return text + way_out;
}

// Four digits, and all of those before the point.
std::string Plain(double value) {
  return std::abs(value) >= 1e4 && std::abs(value) < 1e15 ? fmt::format("{:.0f}", value)
                                                          : fmt::format("{:.4g}", value);
}

report::Table InfluenceTable(const Found& found) {
  report::Table table(
      {{"input", "input"}, {"less", "-10 %"}, {"more", "+10 %"}, {"other_mix", "another mix"}});
  for (const Influence& one : found.influences)
    table.AddRow({one.input, Signed(one.less), Signed(one.more), one.other_mix ? "yes" : "no"});
  return table;
}

report::Table CheckTable(const Found& found) {
  report::Table table(
      {{"limit", "limit"}, {"of", "of"}, {"value", "value"}, {"bound", "bound"}, {"used", "used [%]", 0}});
  for (const Check& check : found.model.Evaluate(found.answer.best->mix).checks)
    table.AddRow({ToString(check.limit), check.subject.empty() ? "all" : check.subject, check.value,
                  fmt::format("{} {}", check.at_least ? ">=" : "<=", Plain(check.bound)),
                  100 * check.Ratio()});
  return table;
}

// At most `most` of the front's points, or those of its ends and the answer with its neighbours, and the
// answer itself: it is none of the front's where others have the same objective.
std::vector<FrontPoint> FrontAround(const Answer& answer, size_t most) {
  const std::vector<FrontPoint>& front = answer.front;
  if (!answer.best) return Thinned(front, most);
  const auto before = [&](const FrontPoint& point) {
    return point.objective < answer.best->objective * (1 - kRounding);
  };
  const auto at = static_cast<size_t>(std::find_if_not(front.begin(), front.end(), before) - front.begin());
  std::set<size_t> shown;
  if (!front.empty()) shown = {0, front.size() - 1};
  for (size_t i = at == 0 ? 0 : at - 1; i < std::min(front.size(), at + 2); i++) shown.insert(i);
  // Of what remains, always the middle of the widest gap.
  while (shown.size() < std::min(most, front.size())) {
    size_t low = 0, gap = 0;
    for (auto one = shown.begin(); std::next(one) != shown.end(); ++one) {
      const size_t wide = *std::next(one) - *one;
      if (wide > gap) low = *one, gap = wide;
    }
    shown.insert(low + gap / 2);
  }
  std::vector<FrontPoint> points;
  for (const size_t i : shown) {
    if (i == at && !(front[i].mix == answer.best->mix)) points.push_back(*answer.best);  // slower, not better
    points.push_back(front[i]);
  }
  return points;
}

report::Table FrontTable(const Found& found, size_t most) {
  const bool by_energy = found.objective == Objective::kEnergy;
  std::vector<report::Column> columns = {{"slowdown", "slowdown", 3}};
  if (by_energy) columns.push_back({"energy", "energy / baseline's", 3});
  columns.insert(columns.end(), {{"cost_usd", "cost [USD]", 0},
                                 {"power_w", "power [W]", 0},
                                 {"limits", "within limits"},
                                 {"mix", "mix"}});
  report::Table table(std::move(columns));
  const double before = found.model.Evaluate(found.model.input().workload.baseline).Energy();
  for (const FrontPoint& point : FrontAround(found.answer, most)) {
    const Evaluation evaluation = found.model.Evaluate(point.mix);
    std::vector<report::Cell> cells = {evaluation.slowdown};
    if (by_energy) cells.emplace_back(evaluation.Energy() / before);
    cells.emplace_back(evaluation.CostUsd());
    cells.emplace_back(evaluation.PowerW());
    const bool is_answer = found.answer.best && point.mix == found.answer.best->mix;
    cells.emplace_back(is_answer ? "the answer" : evaluation.Feasible() ? "yes" : "no");
    cells.emplace_back(Describe(found.model.input().catalogue, point.mix));
    table.AddRow(std::move(cells));
  }
  return table;
}

std::string BindingText(const Found& found) {
  if (found.binding.empty()) return "binding: no limit; the objective alone decides\n";
  std::string text;
  for (const Binding& one : found.binding)
    text += fmt::format("{} {}: 10 % more of it would save {:.1f} %\n",
                        text.empty() ? "binding:" : "also binding:", ToString(one.limit), 100 * one.saving);
  return text;
}

}  // namespace

std::string Spell(const Check& check) {
  const std::string unit = UnitOf(check.limit).empty() ? "" : " " + UnitOf(check.limit);
  const std::string of = check.subject.empty() ? "" : " of " + check.subject;
  const double ratio = check.value / check.bound;
  const std::string difference =
      ratio >= 10 ? fmt::format("{:.0f} times as much", ratio)
                  : fmt::format("{:.1f} % {}", 100 * std::abs(ratio - 1), ratio > 1 ? "over" : "under");
  return fmt::format("{}{}: {}{} where {} {}{} is {}, {}", ToString(check.limit), of, Plain(check.value),
                     unit, check.at_least ? "at least" : "at most", Plain(check.bound), unit,
                     check.at_least ? "needed" : "allowed", difference);
}

std::string SearchText(const Found& found) {
  const PlanInput& input = found.model.input();
  std::string text = fmt::format("{}: ", input.workload.name);
  std::string last = PlaceholderPrices(input);
  if (!last.empty()) last = "\n" + last + "\n";
  if (!found.answer.best) return text + InfeasibleText(found) + last;
  const Mix& best = found.answer.best->mix;
  const std::string of =
      found.answer.stopped ? fmt::format("found in {:.2f} s, before all of {} mixes were looked at",
                                         found.search_s, found.answer.candidates)
                           : fmt::format("of {} mixes in {:.2f} s", found.answer.candidates, found.search_s);
  text +=
      fmt::format("least {} within slowdown {:g}, {}\n  {}\n  {}\n", ToString(found.objective),
                  input.workload.limits.slowdown, of, Describe(input.catalogue, best), Summary(found, best));
  const auto before = found.model.Evaluate(input.workload.baseline);
  text += fmt::format("baseline: {}\n  {}, {:.0f} W\n\n", Describe(input.catalogue, input.workload.baseline),
                      Usd(before.CostUsd()), before.PowerW());
  if (!found.is_interrupted) text += BindingText(found) + "\n";
  text += CheckTable(found).Text();
  if (!found.answer.front.empty())
    text += fmt::format(
        "\nfront of {} against slowdown, {} of {} points, those beyond the limit on slowdown too\n{}",
        ToString(found.objective), std::min(kFrontLines, found.answer.front.size()),
        found.answer.front.size(), FrontTable(found, kFrontLines).Text());
  if (!found.influences.empty()) {
    Found shorter{found.model, found.objective, {}, 0, {}, found.influences, {}, {}};
    if (shorter.influences.size() > kInfluenceLines) shorter.influences.resize(kInfluenceLines);
    text += fmt::format("\nwhat moves the least {} most\n{}", ToString(found.objective),
                        InfluenceTable(shorter).Text());
  }
  return text + last;
}

report::Document SearchDocument(const Found& found) {
  const PlanInput& input = found.model.input();
  report::Document document("plan.search." + input.workload.name);
  document.AddRow(JsonRow(found, "baseline", input.workload.baseline));
  if (found.answer.best) document.AddRow(JsonRow(found, "best", found.answer.best->mix));
  for (const FrontPoint& point : Thinned(found.answer.front, kFrontRows))
    document.AddRow(JsonRow(found, "front", point.mix));
  for (const Obstacle& obstacle : found.obstacles) {
    auto row = JsonRow(found, "infeasible", obstacle.mix.mix);
    row["limit"] = ToString(obstacle.limit);
    row["needed"] = obstacle.check.value;
    row["allowed"] = obstacle.check.bound;
    row["factor"] = obstacle.factor;
    document.AddRow(std::move(row));
  }
  if (found.conflict) {
    for (const Check& check : found.conflict->broken) {
      auto row = JsonRow(found, "infeasible-together", found.conflict->mix.mix);
      row["limit"] = ToString(check.limit);
      row["needed"] = check.value;
      row["allowed"] = check.bound;
      row["factor"] = found.conflict->factor;
      document.AddRow(std::move(row));
    }
  }
  document.SetRatio("feasible", found.answer.best ? 1 : 0);
  document.SetRatio("candidates", static_cast<double>(found.answer.candidates));
  document.SetRatio("search_s", found.search_s);
  if (found.is_interrupted) document.SetRatio("interrupted", 1);
  if (found.answer.best) {
    const Evaluation now = found.model.Evaluate(found.answer.best->mix);
    const Evaluation before = found.model.Evaluate(input.workload.baseline);
    document.SetRatio("cost_saving", before.CostUsd() / now.CostUsd());
    document.SetRatio("energy_saving", before.Energy() / now.Energy());
  }
  for (const Binding& one : found.binding) document.SetRatio("binding " + ToString(one.limit), one.saving);
  const double none = std::numeric_limits<double>::quiet_NaN();
  for (const Influence& one : found.influences) {
    document.SetRatio("sensitivity -10 % " + one.input, one.less.value_or(none));
    document.SetRatio("sensitivity +10 % " + one.input, one.more.value_or(none));
  }
  return document;
}

report::HtmlPage SearchPage(const Found& found, const report::Document& document) {
  const PlanInput& input = found.model.input();
  report::HtmlPage page(
      "Spillway planner: " + input.workload.name,
      fmt::format("The mix of least {} that meets every limit, out of {} candidates, and what speed costs.",
                  ToString(found.objective), found.answer.candidates));
  if (!found.answer.best) {
    page.AddHeading("No mix meets every limit");
    page.AddText(InfeasibleText(found));
  } else {
    const Mix& best = found.answer.best->mix;
    const Evaluation now = found.model.Evaluate(best), before = found.model.Evaluate(input.workload.baseline);
    page.AddFigure(fmt::format("{:.2f}x", before.CostUsd() / now.CostUsd()), "cheaper than the baseline",
                   Usd(now.CostUsd()));
    page.AddFigure(fmt::format("{:.2f}x", before.Energy() / now.Energy()), "less energy",
                   fmt::format("{:.0f} W", now.PowerW()));
    page.AddFigure(fmt::format("{:.2f}", now.slowdown), "slowdown",
                   fmt::format("limit {:g}", input.workload.limits.slowdown));
    page.AddText(Describe(input.catalogue, best));
    page.AddText(BindingText(found));
  }
  if (!found.answer.front.empty()) {
    report::Chart chart;
    chart.title = fmt::format("What speed costs: front of {} against slowdown", ToString(found.objective));
    chart.note = "No candidate is below or left of the line.";
    chart.x = {"Slowdown", "execution time over the baseline's", true};
    chart.y = {found.objective == Objective::kCost ? "Cost" : "Energy over the baseline's",
               found.objective == Objective::kCost ? "USD" : "", true};
    const Evaluation before = found.model.Evaluate(input.workload.baseline);
    const double scale = found.objective == Objective::kCost ? 1 : before.Energy();
    report::Series front, baseline;
    front.name = "front";
    for (const FrontPoint& point : Thinned(found.answer.front, kFrontRows))
      front.points.insert(front.points.begin(), {point.slowdown, point.objective / scale});
    baseline.name = "baseline";
    baseline.points = {{1, found.objective == Objective::kCost ? before.CostUsd() : 1}};
    chart.series = {front, baseline};
    if (found.answer.best) {
      report::Series best;
      best.name = "best within the limits";
      best.points = {{found.answer.best->slowdown, found.answer.best->objective / scale}};
      chart.series.push_back(best);
    }
    page.AddChart(chart);
  }
  if (found.answer.best) page.AddTable("Limits", CheckTable(found));
  if (!found.influences.empty())
    page.AddTable(fmt::format("What a tenth of each input does to the least {}", ToString(found.objective)),
                  InfluenceTable(found));
  if (!found.answer.front.empty()) page.AddTable("The front", FrontTable(found, 40));
  if (const std::string prices = PlaceholderPrices(input); !prices.empty()) page.AddText(prices);
  page.Embed(document, "search.json");
  return page;
}

}  // namespace spillway::planner

// SPDX-License-Identifier: Apache-2.0
#include "planner/diagnosis.h"

#include <algorithm>
#include <set>
#include <span>

#include "planner/search_space.h"

namespace spillway::planner {
namespace {

constexpr double kRelaxed = 1.1;  // a tenth
constexpr double kNotWorthIt = 1e-6;

Question Asking(Objective objective) {
  Question question;
  question.objective = objective;
  return question;
}

std::optional<FrontPoint> AnyMix(const ClusterModel& model, Question question, const SearchHooks& hooks) {
  question.any = true;
  return Search(model, question, hooks).best;
}

// The check of this limit that the mix breaks most.
Check WorstCheck(const ClusterModel& model, const Mix& mix, Limit limit) {
  Check worst;
  for (const Check& check : model.Evaluate(mix).checks)
    if (check.limit == limit && (worst.bound == 0 || check.Ratio() > worst.Ratio())) worst = check;
  return worst;
}

// The least value in `factors` (ascending) at which there is a mix: found by halves, as more slack never
// takes an answer away.
std::optional<double> LeastFactor(const ClusterModel& model, Question question, Limit limit,
                                  const std::vector<double>& factors, const SearchHooks& hooks) {
  const auto feasible = [&](double factor) {
    question.slack[static_cast<size_t>(limit)] = factor;
    return AnyMix(model, question, hooks).has_value();
  };
  if (factors.empty() || !feasible(factors.back())) return std::nullopt;
  size_t low = 0, high = factors.size() - 1;
  while (low < high) {
    const size_t middle = (low + high) / 2;
    if (feasible(factors[middle]))
      high = middle;
    else
      low = middle + 1;
  }
  return factors[low];
}

// What groups may need of a limit, above 1: the ratios of all choices, on all fabrics.
std::vector<double> RatiosOfGroups(const ClusterModel& model, Limit limit) {
  std::set<double> ratios;
  const auto note = [&](std::span<const Group> groups, const Fabric& fabric) {
    const double ratio = model.RatiosOf(groups, fabric)[static_cast<size_t>(limit)];
    if (ratio > 1 && ratio < kInfinity) ratios.insert(ratio);
  };
  const Space& space = model.input().workload.space;
  for (const Fabric& fabric : FabricsOf(space)) {
    for (NodeKind kind : KindsOf(model.input().workload)) {
      if (kind != NodeKind::kLiteCompute) {
        for (const Group& group : DeviceGroups(model, kind)) note(std::span(&group, 1), fabric);
        continue;
      }
      // Two types need what a single type of as many nodes needs.
      for (size_t node : NodesFor(model, kind)) {
        for (int n = 1; n <= 2 * space.most_nodes; n++) {
          const Group group{kind, node, n, 0, 0};
          note(std::span(&group, 1), fabric);
        }
      }
    }
  }
  return {ratios.begin(), ratios.end()};
}

// The factor by which a limit of the whole mix must be exceeded: the least of what is limited, over the
// limit.
std::optional<double> FactorOfWhole(const ClusterModel& model, Question question, Limit limit,
                                    const SearchHooks& hooks) {
  const Limits& limits = model.input().workload.limits;
  question.slack[static_cast<size_t>(limit)] = kInfinity;
  if (limit == Limit::kCost) {
    if (!limits.cost_usd) return std::nullopt;
    question.objective = Objective::kCost;
    const Answer answer = Search(model, question, hooks);
    if (!answer.best) return std::nullopt;
    return answer.best->objective / *limits.cost_usd;
  }
  if (limit == Limit::kSlowdown) {
    question.front = true;
    const Answer answer = Search(model, question, hooks);
    if (answer.front.empty()) return std::nullopt;
    return answer.front.back().slowdown / limits.slowdown;
  }
  if (!limits.power_w) return std::nullopt;
  // No search minimises power; its limit is found by halves.
  if (!AnyMix(model, question, hooks)) return std::nullopt;
  double low = 1, high = 2;
  const auto feasible = [&](double factor) {
    question.slack[static_cast<size_t>(limit)] = factor;
    return AnyMix(model, question, hooks).has_value();
  };
  const auto stopped = [&] { return hooks.stop && hooks.stop(); };
  while (!feasible(high) && !stopped()) low = high, high *= 2;
  while (high / low > 1 + 1e-6 && !stopped()) (feasible((low + high) / 2) ? high : low) = (low + high) / 2;
  return high;
}

}  // namespace

std::vector<Obstacle> FindObstacles(const ClusterModel& model, Objective objective,
                                    const SearchHooks& hooks) {
  std::vector<Obstacle> obstacles;
  for (size_t l = 0; l < kLimits; l++) {
    const auto limit = static_cast<Limit>(l);
    Question question = Asking(objective);
    const auto factor = l < kFirstGroupLimit
                            ? FactorOfWhole(model, question, limit, hooks)
                            : LeastFactor(model, question, limit, RatiosOfGroups(model, limit), hooks);
    if (!factor) continue;
    question.slack[l] = *factor;
    const Answer answer = Search(model, question, hooks);
    if (!answer.best) continue;  // stopped
    obstacles.push_back({limit, *factor, *answer.best, WorstCheck(model, answer.best->mix, limit)});
  }
  std::sort(obstacles.begin(), obstacles.end(),
            [](const Obstacle& a, const Obstacle& b) { return a.factor < b.factor; });
  return obstacles;
}

std::optional<Conflict> FindConflict(const ClusterModel& model, Objective objective,
                                     const SearchHooks& hooks) {
  Question question = Asking(objective);
  const auto feasible = [&](double factor) {
    question.slack.fill(factor);
    return AnyMix(model, question, hooks).has_value();
  };
  double low = 1, high = 2;
  while (!feasible(high)) {
    if (high > 1e6 || (hooks.stop && hooks.stop()))
      return std::nullopt;  // something is missing altogether, and no factor brings it
    low = high, high *= 2;
  }
  while (high / low > 1.001) (feasible((low + high) / 2) ? high : low) = (low + high) / 2;
  question.slack.fill(high);
  const Answer answer = Search(model, question, hooks);
  if (!answer.best) return std::nullopt;
  Conflict conflict{high, *answer.best, {}};
  for (const Check& check : model.Evaluate(answer.best->mix).checks)
    if (check.Ratio() > 1) conflict.broken.push_back(check);
  return conflict;
}

std::vector<Binding> FindBinding(const ClusterModel& model, Objective objective, const FrontPoint& best,
                                 const SearchHooks& hooks) {
  std::vector<Binding> binding;
  for (size_t l = 0; l < kLimits; l++) {
    Question question = Asking(objective);
    question.slack[l] = kRelaxed;
    question.at_most = best.objective;
    const Answer answer = Search(model, question, hooks);
    if (!answer.best) continue;
    const double saving = 1 - answer.best->objective / best.objective;
    if (saving > kNotWorthIt) binding.push_back({static_cast<Limit>(l), saving});
  }
  std::sort(binding.begin(), binding.end(),
            [](const Binding& a, const Binding& b) { return a.saving > b.saving; });
  return binding;
}

}  // namespace spillway::planner

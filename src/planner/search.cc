// SPDX-License-Identifier: Apache-2.0
#include "planner/search.h"

#include <algorithm>
#include <array>
#include <map>
#include <span>
#include <tuple>

#include "planner/pareto_front.h"
#include "planner/search_space.h"

namespace spillway::planner {
namespace {

// Objectives that differ by less are one: energy hardly depends on how many equal nodes share the work, and
// which of them is least would be for rounding to say.
constexpr double kTie = 1e-10;

// A choice for one kind of nodes, or a combination of such choices, and all that a mix takes over from it.
struct Option {
  double cost_usd = 0, power_w = 0;
  GroupTime time;
  std::array<Group, 4> groups{};  // as many as a mix may have; in place, as there are many options
  size_t group_count = 0;

  std::span<const Group> Groups() const { return {groups.data(), group_count}; }
};

// One or two groups of lite compute nodes; b has no nodes where there is one.
struct LiteChoice {
  Group a, b;
};

double Slowdown(const GroupTime& a, const GroupTime& b) {
  return a.own + b.own + std::max(a.storage, b.storage);
}

Option Combine(const Option& a, const Option& b) {
  Option both = a;
  both.cost_usd += b.cost_usd;
  both.power_w += b.power_w;
  both.time = {a.time.own + b.time.own, std::max(a.time.storage, b.time.storage)};
  for (const Group& group : b.Groups()) both.groups[both.group_count++] = group;
  return both;
}

// Leaves out every option that another one is at least as good as, by key, own time and storage time.
// Invariant of `stairs`: own time -> storage time, falling, over all options kept so far.
void PruneByKey(std::vector<Option>& options, double Option::*key) {
  std::sort(options.begin(), options.end(), [&](const Option& x, const Option& y) {
    return std::tie(x.*key, x.time.own, x.time.storage, x.cost_usd) <
           std::tie(y.*key, y.time.own, y.time.storage, y.cost_usd);
  });
  std::map<double, double> stairs;
  std::erase_if(options, [&](const Option& option) {
    auto after = stairs.upper_bound(option.time.own);
    if (after != stairs.begin() && std::prev(after)->second <= option.time.storage) return true;
    while (after != stairs.end() && after->second >= option.time.storage) after = stairs.erase(after);
    stairs[option.time.own] = option.time.storage;
    return false;
  });
}

// The same by cost, power, own time and storage time, for questions that limit what they do not minimise.
void PruneByAll(std::vector<Option>& options) {
  std::sort(options.begin(), options.end(),
            [](const Option& x, const Option& y) { return x.cost_usd < y.cost_usd; });
  std::vector<Option> kept;
  for (Option& option : options) {
    const bool covered = std::any_of(kept.begin(), kept.end(), [&](const Option& k) {
      return k.power_w <= option.power_w && k.time.own <= option.time.own &&
             k.time.storage <= option.time.storage;
    });
    if (!covered) kept.push_back(std::move(option));
  }
  options = std::move(kept);
}

class Searcher {
 public:
  Searcher(const ClusterModel& model, const Question& question, const SearchHooks& hooks)
      : model_(model), limits_(model.input().workload.limits), question_(question), hooks_(hooks) {
    most_cost_ = Most(Limit::kCost, limits_.cost_usd);
    most_power_ = Most(Limit::kPower, limits_.power_w);
    most_slowdown_ = Most(Limit::kSlowdown, limits_.slowdown);
    at_most_ = question.at_most.value_or(kInfinity) * (1 + kRounding);
  }

  Answer Run() {
    Answer answer;
    answer.candidates = CountCandidates(model_);
    const auto fabrics = FabricsOf(model_.input().workload.space);
    for (NodeKind kind : KindsOf(model_.input().workload))
      if (kind != NodeKind::kLiteCompute) device_groups_.push_back(DeviceGroups(model_, kind));
    for (size_t f = 0; f < fabrics.size() && !done_; f++) {
      fabric_ = fabrics[f];
      fabrics_done_ = static_cast<double>(f);
      fabrics_ = static_cast<double>(fabrics.size());
      SearchFabric();
      if (hooks_.stop && hooks_.stop()) done_ = stopped_ = true;
      if (!stopped_) Tell(1);
    }
    answer.stopped = stopped_;
    answer.best = best_;
    for (const auto& [objective, point] : front_.points())
      answer.front.push_back({point.payload, objective, point.slowdown});
    return answer;
  }

 private:
  double Most(Limit limit, std::optional<double> most) const {
    return most ? *most * question_.slack[static_cast<size_t>(limit)] * (1 + kRounding) : kInfinity;
  }

  bool Meets(const Ratios& ratios) const {
    for (size_t l = kFirstGroupLimit; l < kLimits; l++)
      if (ratios[l] > question_.slack[l] * (1 + kRounding)) return false;
    return true;
  }

  bool Meets(std::span<const Group> groups) const { return Meets(model_.RatiosOf(groups, fabric_)); }

  double ObjectiveOf(double cost, double power, double slowdown) const {
    return question_.objective == Objective::kCost ? cost : power * slowdown;
  }

  void SearchFabric() {
    std::vector<Option> rest = {Option()};  // everything but lite compute nodes
    for (const std::vector<Group>& groups : device_groups_) {
      const std::vector<Option> of_kind = DeviceOptions(groups);
      std::vector<Option> combined;
      for (const Option& a : rest) {
        if (hooks_.stop && hooks_.stop()) done_ = stopped_ = true;
        if (done_) return;
        for (const Option& b : of_kind) combined.push_back(Combine(a, b));
      }
      Prune(combined);
      rest = std::move(combined);
    }
    if (rest.empty()) return;
    if (model_.input().workload.Baseline(NodeKind::kLiteCompute) == nullptr) {
      for (const Option& option : rest) Consider(option);
    } else if (rest.size() == 1) {
      ForEachLiteOption([&](const Resources& sum, const GroupTime& time, const auto& choice) {
        ConsiderLite(sum, time, choice, rest[0]);
      });
    } else {
      CombineWithLite(rest);
    }
  }

  void CombineWithLite(const std::vector<Option>& rest) {
    double least_cost = kInfinity, least_power = kInfinity, least_own = kInfinity;
    for (const Option& option : rest) {
      least_cost = std::min(least_cost, option.cost_usd);
      least_power = std::min(least_power, option.power_w);
      least_own = std::min(least_own, option.time.own);
    }
    std::vector<Option> lites;
    ForEachLiteOption([&](const Resources& sum, const GroupTime& time, const auto& choice) {
      const double slowdown = time.own + time.storage + least_own;
      if (!Wanted(sum.cost_usd + least_cost, sum.power_w + least_power, slowdown)) return;
      const Option option = LiteOption(sum, time, choice());
      if (Meets(option.Groups())) lites.push_back(option);
    });
    Prune(lites);
    for (const Option& a : lites) {
      if (hooks_.stop && hooks_.stop()) return;
      for (const Option& b : rest) {
        if (Wanted(a.cost_usd + b.cost_usd, a.power_w + b.power_w, Slowdown(a.time, b.time)))
          Consider(Combine(b, a));
      }
    }
  }

  static Option LiteOption(const Resources& sum, const GroupTime& time, const LiteChoice& choice) {
    return {
        sum.cost_usd, sum.power_w, time, {choice.a, choice.b}, choice.b.nodes > 0 ? size_t{2} : size_t{1}};
  }

  std::vector<Option> DeviceOptions(const std::vector<Group>& groups) const {
    std::vector<Option> options;
    for (const Group& group : groups) {
      const Resources sum = model_.ResourcesOf(group, fabric_);
      const GroupTime time = model_.TimeOf(group.kind, sum);
      if (sum.cost_usd > most_cost_ || sum.power_w > most_power_) continue;
      if (ObjectiveOf(sum.cost_usd, sum.power_w, time.own + time.storage) > at_most_) continue;
      if (Meets(std::span(&group, 1))) options.push_back({sum.cost_usd, sum.power_w, time, {group}, 1});
    }
    Prune(options);
    return options;
  }

  // Leaves out what cannot be part of an answer, or only of one that another equals.
  void Prune(std::vector<Option>& options) const {
    const bool by_cost = question_.objective == Objective::kCost;
    if (by_cost ? most_power_ < kInfinity : most_cost_ < kInfinity) return PruneByAll(options);
    PruneByKey(options, by_cost ? &Option::cost_usd : &Option::power_w);
  }

  // visit(resources, time, choice()): choice() says which nodes they are, for those that are of interest.
  template <class Visit>
  void ForEachLiteOption(Visit visit) {
    constexpr NodeKind kKind = NodeKind::kLiteCompute;
    const int most = model_.input().workload.space.most_nodes;
    const auto nodes = NodesFor(model_, kKind);
    std::vector<Resources> one;
    for (size_t node : nodes) one.push_back(model_.ResourcesOf({kKind, node, 1, 0, 0}, fabric_));
    for (size_t a = 0; a < nodes.size() && !done_; a++) {
      for (int n = 1; n <= most; n++) {
        Tell((static_cast<double>(a) + static_cast<double>(n) / most) / static_cast<double>(nodes.size()));
        const Resources first = Sum({}, one[a], n);
        if (TooMuch(first)) break;
        visit(first, model_.TimeOf(kKind, first), [&] { return LiteChoice{{kKind, nodes[a], n, 0, 0}, {}}; });
        for (size_t b = a + 1; b < nodes.size(); b++) {
          if (hooks_.stop && hooks_.stop()) done_ = stopped_ = true;
          for (int m = 1; m <= most; m++) {
            const Resources both = Sum(first, one[b], m);
            if (TooMuch(both)) break;
            visit(both, model_.TimeOf(kKind, both), [&] {
              return LiteChoice{{kKind, nodes[a], n, 0, 0}, {kKind, nodes[b], m, 0, 0}};
            });
          }
        }
      }
    }
  }

  void Tell(double share_of_fabric) const {
    if (hooks_.progress) hooks_.progress((fabrics_done_ + share_of_fabric) / fabrics_);
  }

  // More nodes would only cost and draw more.
  bool TooMuch(const Resources& sum) const {
    return sum.cost_usd > most_cost_ || sum.power_w > most_power_ ||
           (question_.objective == Objective::kCost && sum.cost_usd > at_most_) || done_;
  }

  // Could such a mix change the answer?
  bool Wanted(double cost, double power, double slowdown) const {
    if (done_ || cost > most_cost_ || power > most_power_) return false;
    const double objective = ObjectiveOf(cost, power, slowdown);
    if (objective > at_most_) return false;
    if (question_.front) return !front_.Covers(objective, slowdown);
    if (slowdown > most_slowdown_) return false;
    return IsBetter(objective, cost, slowdown);
  }

  // Of equal objectives, the faster is the better of equal costs, and the cheaper of equal energies.
  bool IsBetter(double objective, double cost, double slowdown) const {
    if (!best_ || objective < least_ * (1 - kTie)) return true;
    if (objective > least_ * (1 + kTie)) return false;
    return question_.objective == Objective::kCost ? slowdown < best_->slowdown : cost < best_cost_;
  }

  template <class ChoiceOf>
  void ConsiderLite(const Resources& sum, const GroupTime& time, const ChoiceOf& choice, const Option& rest) {
    if (!Wanted(sum.cost_usd + rest.cost_usd, sum.power_w + rest.power_w, Slowdown(time, rest.time))) return;
    const Option lite = LiteOption(sum, time, choice());
    if (Meets(lite.Groups())) Consider(Combine(rest, lite));
  }

  // A whole mix, whose groups meet their limits.
  void Consider(const Option& option) {
    const double slowdown = option.time.own + option.time.storage;
    if (!Wanted(option.cost_usd, option.power_w, slowdown)) return;
    const Mix mix{{option.Groups().begin(), option.Groups().end()}, fabric_};
    const double objective = ObjectiveOf(option.cost_usd, option.power_w, slowdown);
    if (question_.front) front_.Insert(objective, slowdown, mix);
    if (slowdown > most_slowdown_ || !IsBetter(objective, option.cost_usd, slowdown)) return;
    best_ = FrontPoint{mix, objective, slowdown};
    best_cost_ = option.cost_usd;
    least_ = std::min(least_, objective);
    if (!question_.front) at_most_ = std::min(at_most_, objective * (1 + kRounding));
    if (question_.any) done_ = true;
  }

  const ClusterModel& model_;
  const Limits& limits_;
  const Question& question_;
  const SearchHooks& hooks_;
  double most_cost_, most_power_, most_slowdown_, at_most_;
  std::vector<std::vector<Group>> device_groups_;  // by kind, all candidates
  Fabric fabric_;
  double fabrics_done_ = 0, fabrics_ = 1;
  bool done_ = false, stopped_ = false;
  std::optional<FrontPoint> best_;
  double best_cost_ = kInfinity, least_ = kInfinity;
  ParetoFront<Mix> front_;
};

}  // namespace

std::string ToString(Objective objective) { return objective == Objective::kCost ? "cost" : "energy"; }

Answer Search(const ClusterModel& model, const Question& question, const SearchHooks& hooks) {
  return Searcher(model, question, hooks).Run();
}

}  // namespace spillway::planner

// SPDX-License-Identifier: Apache-2.0
#include "planner/search.h"

#include <algorithm>
#include <limits>
#include <span>

#include "planner/pareto_front.h"
#include "planner/search_space.h"

namespace spillway::planner {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kRounding = 1e-9;

// One or two groups of one kind; b has no nodes where there is one.
struct Choice {
  Group a, b;
};

// A choice, or a combination of choices, and all that a mix takes over from it.
struct Option {
  double cost_usd = 0, power_w = 0;
  GroupTime time;
  std::vector<Choice> choices;
};

double Slowdown(const GroupTime& a, const GroupTime& b) {
  return a.own + b.own + std::max(a.storage, b.storage);
}

Option Combine(const Option& a, const Option& b) {
  Option both{a.cost_usd + b.cost_usd,
              a.power_w + b.power_w,
              {a.time.own + b.time.own, std::max(a.time.storage, b.time.storage)},
              a.choices};
  both.choices.insert(both.choices.end(), b.choices.begin(), b.choices.end());
  return both;
}

// Leaves out every option that another one is at least as good as, by key, own time and storage time.
// Invariant of `stairs`: own time -> storage time, falling, over all options kept so far.
void PruneByKey(std::vector<Option>& options, double Option::*key) {
  std::sort(options.begin(), options.end(), [&](const Option& x, const Option& y) {
    return std::tie(x.*key, x.time.own, x.time.storage) < std::tie(y.*key, y.time.own, y.time.storage);
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
    for (size_t f = 0; f < fabrics.size() && !done_; f++) {
      fabric_ = fabrics[f];
      SearchFabric();
      if (hooks_.progress) hooks_.progress(static_cast<double>(f + 1) / static_cast<double>(fabrics.size()));
      if (hooks_.stop && hooks_.stop()) answer.stopped = done_ = true;
    }
    if (best_mix_) answer.best = FrontPoint{*best_mix_, best_, best_slowdown_};
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

  bool Meets(const Choice& choice) const {
    const Group groups[] = {choice.a, choice.b};
    return Meets(model_.RatiosOf(std::span(groups, choice.b.nodes > 0 ? 2 : 1), fabric_));
  }

  double ObjectiveOf(double cost, double power, double slowdown) const {
    return question_.objective == Objective::kCost ? cost : power * slowdown;
  }

  void SearchFabric() {
    Option nothing;
    std::vector<Option> rest = {nothing};  // everything but lite compute nodes
    bool lite = false;
    for (NodeKind kind : KindsOf(model_.input().workload)) {
      if (kind == NodeKind::kLiteCompute) {
        lite = true;
        continue;
      }
      std::vector<Option> combined;
      const std::vector<Option> of_kind = DeviceOptions(kind);
      for (const Option& a : rest)
        for (const Option& b : of_kind) combined.push_back(Combine(a, b));
      Prune(combined);
      rest = std::move(combined);
    }
    if (rest.empty()) return;
    if (!lite) {
      for (const Option& option : rest) Consider(option, nothing);
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
      const Choice chosen = choice();
      if (Meets(chosen)) lites.push_back({sum.cost_usd, sum.power_w, time, {chosen}});
    });
    Prune(lites);
    for (const Option& a : lites) {
      if (hooks_.stop && hooks_.stop()) return;
      for (const Option& b : rest) Consider(b, a);
    }
  }

  std::vector<Option> DeviceOptions(NodeKind kind) const {
    std::vector<Option> options;
    for (const Group& group : DeviceGroups(model_, kind)) {
      const Resources sum = model_.ResourcesOf(group, fabric_);
      if (sum.cost_usd > most_cost_ || sum.power_w > most_power_) continue;
      if (!Meets(model_.RatiosOf(std::span(&group, 1), fabric_))) continue;
      options.push_back({sum.cost_usd, sum.power_w, model_.TimeOf(kind, sum), {{group, {}}}});
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
        const Resources first = Sum({}, one[a], n);
        if (TooMuch(first)) break;
        visit(first, model_.TimeOf(kKind, first), [&] { return Choice{{kKind, nodes[a], n, 0, 0}, {}}; });
        for (size_t b = a + 1; b < nodes.size(); b++) {
          for (int m = 1; m <= most; m++) {
            const Resources both = Sum(first, one[b], m);
            if (TooMuch(both)) break;
            visit(both, model_.TimeOf(kKind, both), [&] {
              return Choice{{kKind, nodes[a], n, 0, 0}, {kKind, nodes[b], m, 0, 0}};
            });
          }
        }
      }
    }
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
    return !best_mix_ || objective < best_ || (objective == best_ && slowdown < best_slowdown_);
  }

  template <class ChoiceOf>
  void ConsiderLite(const Resources& sum, const GroupTime& time, const ChoiceOf& choice, const Option& rest) {
    const double cost = sum.cost_usd + rest.cost_usd, power = sum.power_w + rest.power_w;
    const double slowdown = Slowdown(time, rest.time);
    if (!Wanted(cost, power, slowdown)) return;
    const Choice chosen = choice();
    if (!Meets(chosen)) return;
    Take(cost, power, slowdown, rest.choices, &chosen);
  }

  void Consider(const Option& a, const Option& b) {
    const double cost = a.cost_usd + b.cost_usd, power = a.power_w + b.power_w;
    const double slowdown = Slowdown(a.time, b.time);
    if (Wanted(cost, power, slowdown))
      Take(cost, power, slowdown, a.choices, b.choices.empty() ? nullptr : &b.choices[0]);
  }

  void Take(double cost, double power, double slowdown, const std::vector<Choice>& choices,
            const Choice* lite) {
    Mix mix{{}, fabric_};
    const auto add = [&](const Choice& choice) {
      mix.groups.push_back(choice.a);
      if (choice.b.nodes > 0) mix.groups.push_back(choice.b);
    };
    for (const Choice& choice : choices) add(choice);
    if (lite != nullptr) add(*lite);
    const double objective = ObjectiveOf(cost, power, slowdown);
    if (question_.front) front_.Insert(objective, slowdown, mix);
    if (slowdown > most_slowdown_) return;
    if (!best_mix_ || objective < best_ || (objective == best_ && slowdown < best_slowdown_)) {
      best_mix_ = std::move(mix);
      best_ = objective;
      best_slowdown_ = slowdown;
      if (!question_.front) at_most_ = std::min(at_most_, objective * (1 + kRounding));
      if (question_.any) done_ = true;
    }
  }

  const ClusterModel& model_;
  const Limits& limits_;
  const Question& question_;
  const SearchHooks& hooks_;
  double most_cost_, most_power_, most_slowdown_, at_most_;
  Fabric fabric_;
  bool done_ = false;
  std::optional<Mix> best_mix_;
  double best_ = kInfinity, best_slowdown_ = kInfinity;
  ParetoFront<Mix> front_;
};

}  // namespace

std::string ToString(Objective objective) { return objective == Objective::kCost ? "cost" : "energy"; }

Answer Search(const ClusterModel& model, const Question& question, const SearchHooks& hooks) {
  return Searcher(model, question, hooks).Run();
}

}  // namespace spillway::planner

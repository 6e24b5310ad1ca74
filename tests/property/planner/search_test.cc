// SPDX-License-Identifier: Apache-2.0
// The search against asking every candidate: same optimum, same front, same infeasibility.
#include "planner/search.h"

#include <gtest/gtest.h>

#include "planner/diagnosis.h"
#include "planner/search_space.h"
#include "random_input.h"

namespace spillway::planner {
namespace {

constexpr double kClose = 1e-9;  // relative: the search adds up in another order
constexpr size_t kSlowdownLimit = static_cast<size_t>(Limit::kSlowdown);

struct Asked {
  double objective, slowdown;
  bool all_but_slowdown, all;
};

double ObjectiveOf(const Evaluation& e, Objective objective) {
  return objective == Objective::kCost ? e.CostUsd() : e.Energy();
}

// Every candidate's objective and slowdown, and which limits it meets.
std::vector<Asked> AskAll(const ClusterModel& model, Objective objective) {
  std::vector<Asked> asked;
  ForEachCandidate(model, [&](const Mix& mix) {
    const Evaluation e = model.Evaluate(mix);
    bool others = true, all = true;
    for (const Check& check : e.checks) {
      const bool met = check.Ratio() <= 1 + kClose;
      all = all && met;
      others = others && (met || check.limit == Limit::kSlowdown);
    }
    asked.push_back({ObjectiveOf(e, objective), e.slowdown, others, all});
  });
  return asked;
}

struct Case {
  uint64_t seed;
  Kinds kinds;
  bool loose;
  Objective objective;
};

std::vector<Case> Cases() {
  std::vector<Case> cases;
  const Kinds kinds[] = {{false, false, true}, {true, false, false}, {true, true, false},
                         {false, true, true},  {true, false, true},  {true, true, true}};
  for (const Kinds& one : kinds)
    for (uint64_t seed = 1; seed <= 2; seed++)
      for (bool loose : {false, true})
        for (Objective objective : {Objective::kCost, Objective::kEnergy})
          cases.push_back({seed, one, loose, objective});
  return cases;
}

PlanInput InputOf(const Case& c) {
  std::mt19937_64 random(c.seed * 4 + (c.loose ? 1 : 0));
  return RandomInput(random, c.kinds, c.loose);
}

std::string Name(const Case& c) {
  return "seed " + std::to_string(c.seed) + (c.loose ? " loose" : " tight") + " kinds " +
         std::to_string(c.kinds.accelerator) + std::to_string(c.kinds.storage) +
         std::to_string(c.kinds.lite_compute) + " " + ToString(c.objective);
}

TEST(SearchProperty, TheOptimumIsThatOfAskingEveryCandidate) {
  int feasible = 0, infeasible = 0;
  for (const Case& c : Cases()) {
    SCOPED_TRACE(Name(c));
    const PlanInput input = InputOf(c);
    const ClusterModel model(input);
    double best = std::numeric_limits<double>::infinity();
    const auto asked = AskAll(model, c.objective);
    for (const Asked& one : asked)
      if (one.all) best = std::min(best, one.objective);
    Question question;
    question.objective = c.objective;
    for (bool front : {false, true}) {
      question.front = front;
      const Answer answer = Search(model, question);
      EXPECT_EQ(answer.candidates, asked.size());
      ASSERT_EQ(answer.best.has_value(), std::isfinite(best));
      if (!answer.best) continue;
      EXPECT_NEAR(answer.best->objective, best, best * kClose);
      const Evaluation e = model.Evaluate(answer.best->mix);
      EXPECT_TRUE(e.Feasible());
      EXPECT_NEAR(ObjectiveOf(e, c.objective), answer.best->objective, best * kClose);
    }
    (std::isfinite(best) ? feasible : infeasible)++;
  }
  EXPECT_GT(feasible, 25) << "the cases must not all be trivial";
  EXPECT_GT(infeasible, 5);
}

TEST(SearchProperty, OfEqualObjectivesTheFasterOrTheCheaperIsTaken) {
  for (const Case& c : Cases()) {
    const Kinds& kinds = c.kinds;
    if (kinds.accelerator + kinds.storage + kinds.lite_compute > 1) continue;
    SCOPED_TRACE(Name(c));
    const PlanInput input = InputOf(c);
    const ClusterModel model(input);
    Question question;
    question.objective = c.objective;
    const Answer answer = Search(model, question);
    if (!answer.best) continue;
    const Evaluation best = model.Evaluate(answer.best->mix);
    ForEachCandidate(model, [&](const Mix& mix) {
      const Evaluation e = model.Evaluate(mix);
      if (!e.Feasible() || std::abs(ObjectiveOf(e, c.objective) / answer.best->objective - 1) > 1e-11) return;
      const bool cost = c.objective == Objective::kCost;
      EXPECT_GE(cost ? e.slowdown : e.CostUsd(), (cost ? best.slowdown : best.CostUsd()) * (1 - kClose));
    });
  }
}

TEST(SearchProperty, TheFrontIsWhatNoCandidateBeats) {
  for (const Case& c : Cases()) {
    SCOPED_TRACE(Name(c));
    const PlanInput input = InputOf(c);
    const ClusterModel model(input);
    Question question;
    question.objective = c.objective;
    question.front = true;
    const Answer answer = Search(model, question);
    for (size_t i = 1; i < answer.front.size(); i++) {
      EXPECT_GT(answer.front[i].objective, answer.front[i - 1].objective);
      EXPECT_LT(answer.front[i].slowdown, answer.front[i - 1].slowdown);
    }
    for (const Asked& one : AskAll(model, c.objective)) {
      if (!one.all_but_slowdown) continue;
      const bool covered =
          std::any_of(answer.front.begin(), answer.front.end(), [&](const FrontPoint& point) {
            return point.objective <= one.objective * (1 + kClose) &&
                   point.slowdown <= one.slowdown * (1 + kClose);
          });
      ASSERT_TRUE(covered) << one.objective << " at slowdown " << one.slowdown;
    }
    for (const FrontPoint& point : answer.front) {
      const Evaluation e = model.Evaluate(point.mix);
      EXPECT_NEAR(e.slowdown, point.slowdown, point.slowdown * kClose);
      for (const Check& check : e.checks) {
        if (check.limit == Limit::kSlowdown) continue;
        EXPECT_LE(check.Ratio(), 1 + kClose) << ToString(check.limit);
      }
    }
  }
}

TEST(SearchProperty, AKnownBoundDoesNotChangeTheAnswer) {
  for (const Case& c : Cases()) {
    SCOPED_TRACE(Name(c));
    const PlanInput input = InputOf(c);
    const ClusterModel model(input);
    Question question;
    question.objective = c.objective;
    const Answer free = Search(model, question);
    if (!free.best) continue;
    question.at_most = free.best->objective;
    const Answer bound = Search(model, question);
    ASSERT_TRUE(bound.best);
    EXPECT_NEAR(bound.best->objective, free.best->objective, free.best->objective * kClose);
  }
}

// By asking every candidate: the least factor of this limit at which some mix meets all others.
double LeastFactorOf(const ClusterModel& model, Limit limit) {
  double least = std::numeric_limits<double>::infinity();
  ForEachCandidate(model, [&](const Mix& mix) {
    double factor = 0;
    for (const Check& check : model.Evaluate(mix).checks) {
      if (check.limit == limit)
        factor = std::max(factor, check.Ratio());
      else if (check.Ratio() > 1 + kClose)
        return;
    }
    least = std::min(least, factor);
  });
  return least;
}

TEST(SearchProperty, ObstaclesAreTheLimitsThatWouldHelpAndByHowMuch) {
  int asked = 0;
  for (const Case& c : Cases()) {
    const PlanInput input = InputOf(c);
    const ClusterModel model(input);
    Question question;
    question.objective = c.objective;
    if (c.loose || Search(model, question).best) continue;
    SCOPED_TRACE(Name(c));
    asked++;
    const auto obstacles = FindObstacles(model, c.objective);
    for (size_t l = 0; l < kLimits; l++) {
      const auto limit = static_cast<Limit>(l);
      const double least = LeastFactorOf(model, limit);
      const auto found = std::find_if(obstacles.begin(), obstacles.end(),
                                      [&](const Obstacle& o) { return o.limit == limit; });
      ASSERT_EQ(found != obstacles.end(), std::isfinite(least)) << ToString(limit);
      if (found == obstacles.end()) continue;
      EXPECT_NEAR(found->factor, least, least * 1e-5) << ToString(limit);
    }
  }
  EXPECT_GT(asked, 5);
}

TEST(SearchProperty, MoreSlackNeverCostsMore) {
  for (const Case& c : Cases()) {
    if (c.kinds.accelerator && c.kinds.storage && c.kinds.lite_compute) continue;
    SCOPED_TRACE(Name(c));
    const PlanInput input = InputOf(c);
    const ClusterModel model(input);
    double before = std::numeric_limits<double>::infinity();
    for (double slack : {1.0, 1.2, 1.5, 2.0, 4.0}) {
      Question question;
      question.objective = c.objective;
      question.slack[kSlowdownLimit] = slack;
      const Answer answer = Search(model, question);
      const double now = answer.best ? answer.best->objective : std::numeric_limits<double>::infinity();
      EXPECT_LE(now, before * (1 + kClose)) << slack;
      before = now;
    }
  }
}

TEST(Search, HearsAnInterruptWithinAFabric) {
  // One fabric, more than one kind of lite-compute node: asked far more often than once a fabric.
  std::mt19937_64 random(1);
  const PlanInput input = RandomInput(random, {false, false, true}, /*loose=*/true);
  const ClusterModel model(input);
  int whole = 0;
  SearchHooks hooks;
  hooks.stop = [&] {
    whole++;
    return false;
  };
  const Answer all = Search(model, {}, hooks);
  EXPECT_FALSE(all.stopped);
  ASSERT_GT(whole, static_cast<int>(FabricsOf(input.workload.space).size())) << "asked within a fabric";
  int asked = 0;
  hooks.stop = [&] {
    asked++;
    return true;
  };
  EXPECT_TRUE(Search(model, {}, hooks).stopped);
  EXPECT_LT(asked, whole);
}

}  // namespace
}  // namespace spillway::planner

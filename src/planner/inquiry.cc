// SPDX-License-Identifier: Apache-2.0
#include "planner/inquiry.h"

#include <utility>

namespace spillway::planner {

Found Inquire(const ClusterModel& model, Objective objective, bool with_sensitivity, const SearchHooks& hooks,
              const std::function<double()>& now) {
  Found found{model, objective, {}, 0, {}, {}, {}, {}};
  Question question;
  question.objective = objective;
  question.front = true;
  const double begin = now();
  found.answer = Search(model, question, hooks);
  const SearchHooks quiet{{}, hooks.stop};
  question.front = false;
  if (!found.answer.stopped) {
    Answer exact = Search(model, question, quiet);
    found.answer.stopped = exact.stopped;
    if (!exact.stopped) found.answer.best = std::move(exact.best);
  }
  found.search_s = now() - begin;
  const auto is_interrupted = [&] { return found.answer.stopped || (hooks.stop && hooks.stop()); };
  if (is_interrupted()) {
    found.is_interrupted = true;
    return found;
  }
  if (!found.answer.best) {
    found.obstacles = FindObstacles(model, found.objective, quiet);
    if (found.obstacles.empty()) found.conflict = FindConflict(model, found.objective, quiet);
  } else {
    found.binding = FindBinding(model, found.objective, *found.answer.best, quiet);
    if (with_sensitivity)
      found.influences = FindInfluences(model.input(), found.objective, *found.answer.best, hooks);
  }
  found.is_interrupted = is_interrupted();
  return found;
}

}  // namespace spillway::planner

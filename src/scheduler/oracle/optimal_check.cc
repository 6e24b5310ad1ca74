// SPDX-License-Identifier: Apache-2.0
#include "scheduler/oracle/optimal_check.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <optional>
#include <thread>

#include "base/mutex.h"
#include "scheduler/oracle/milp.h"

namespace spillway::scheduler {
namespace {

constexpr double kSame = 1e-6;

double MsSince(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
}

// Variables of the solution whose names begin so.
int CountOnes(const CbcSolution& exact, char letter) {
  return static_cast<int>(std::count_if(exact.ones.begin(), exact.ones.end(), [&](const std::string& name) {
    return !name.empty() && name.front() == letter;
  }));
}

Result<CheckedSnapshot> CheckOne(const Snapshot& snapshot, const MovePolicy& how, const ExactSolver& solver) {
  auto begin = std::chrono::steady_clock::now();
  const Answer ours = AnswerOnline(snapshot, how);
  const double ours_ms = MsSince(begin);
  begin = std::chrono::steady_clock::now();
  const auto exact = solver(WriteMilp(snapshot));
  if (!exact) return tl::make_unexpected(exact.error());
  CheckedSnapshot one = Compare(snapshot, ours, *exact);
  one.ours_ms = ours_ms;
  one.solver_ms = MsSince(begin);
  return one;
}

}  // namespace

bool CheckedSnapshot::Same() const {
  return solved && fault.empty() && placed == can_place && (!placed || std::abs(ours - optimum) < kSame);
}

double CheckedSnapshot::GapPct() const {
  return solved && placed && can_place && optimum > 0 ? 100 * (ours / optimum - 1) : 0;
}

CheckedSnapshot Compare(const Snapshot& snapshot, const Answer& ours, const CbcSolution& exact) {
  CheckedSnapshot one;
  one.isolation = snapshot.rules.isolation;
  one.jobs = static_cast<int>(snapshot.jobs.size());
  one.placed = !ours.spots.empty();
  one.ours = ours.objective;
  one.gpus_on = ours.gpus_on;
  one.moves = ours.moves;
  one.solved = exact.in_time;
  one.can_place = exact.in_time && exact.feasible;
  if (one.placed && !ours.feasible) one.fault = "ours breaks a rule";
  if (!one.solved) return one;
  one.optimum = exact.objective;
  one.optimum_gpus_on = CountOnes(exact, 'Y');
  one.optimum_moves = CountOnes(exact, 'd');
  if (one.placed && !one.can_place) one.fault = "the solver finds no placement";
  if (one.fault.empty() && one.placed && ours.objective < exact.objective - kSame)
    one.fault = "ours is better than the optimum";
  return one;
}

size_t CountSnapshots(const CheckOptions& options) {
  return options.levels.size() * options.unlike.size() * static_cast<size_t>(options.snapshots);
}

Result<std::vector<CheckedAt>> CompareAll(size_t count, const std::function<Snapshot(size_t)>& snapshot,
                                          const MovePolicy& how, const ExactSolver& solver, unsigned threads,
                                          const TellDone& tell, const StopAsked& stop) {
  struct Found {
    explicit Found(size_t total) : slots(total) {}
    base::Mutex mutex;
    std::vector<std::optional<CheckedSnapshot>> slots SPILLWAY_GUARDED_BY(mutex);
    std::optional<Error> error SPILLWAY_GUARDED_BY(mutex);
    size_t done SPILLWAY_GUARDED_BY(mutex) = 0;
  } found(count);
  std::atomic<size_t> next = 0;
  const auto work = [&] {
    for (size_t i = next++; i < count; i = next++) {
      {
        const base::MutexLock lock(found.mutex);
        if (found.error || (stop && stop())) return;
      }
      auto one = CheckOne(snapshot(i), how, solver);
      const base::MutexLock lock(found.mutex);
      // Ctrl-C reaches the solver, too: what it says then is no answer.
      if (stop && stop() && (!one || !one->solved)) return;
      if (!one && !found.error) found.error = one.error();
      if (one) found.slots[i] = *one;
      if (tell) tell(++found.done, count);
    }
  };
  std::vector<std::jthread> workers;
  for (unsigned t = 1; t < threads; ++t) workers.emplace_back(work);
  work();
  workers.clear();
  const base::MutexLock lock(found.mutex);
  if (found.error) return tl::make_unexpected(*found.error);
  std::vector<CheckedAt> checked;
  for (size_t i = 0; i < count; ++i)
    if (found.slots[i]) checked.push_back({i, *found.slots[i]});
  return checked;
}

Result<std::vector<CheckedSnapshot>> CheckOptimal(const CheckOptions& options, const ExactSolver& solver,
                                                  const TellDone& tell, const StopAsked& stop) {
  const auto each = static_cast<size_t>(options.snapshots);
  const auto seed = [&](size_t i) { return options.first_seed + i % each; };
  const auto unlike = [&](size_t i) { return bool{options.unlike[i / (each * options.levels.size())]}; };
  const auto draw = [&](size_t i) {
    return DrawSnapshot(seed(i), options.levels[i / each % options.levels.size()], options.most_jobs,
                        unlike(i));
  };
  const auto all =
      CompareAll(CountSnapshots(options), draw, ThoroughMoves(), solver, options.threads, tell, stop);
  if (!all) return tl::make_unexpected(all.error());
  std::vector<CheckedSnapshot> checked;
  for (const CheckedAt& one : *all) {
    checked.push_back(one.checked);
    checked.back().seed = seed(one.index);
    checked.back().unlike = unlike(one.index);
  }
  return checked;
}

}  // namespace spillway::scheduler

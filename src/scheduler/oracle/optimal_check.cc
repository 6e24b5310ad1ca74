// SPDX-License-Identifier: Apache-2.0
#include "scheduler/oracle/optimal_check.h"

#include <fmt/format.h>

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

Result<CheckedSnapshot> CheckOne(Isolation isolation, uint64_t seed, int most_jobs,
                                 const ExactSolver& solver) {
  const Snapshot snapshot = DrawSnapshot(seed, isolation, most_jobs);
  CheckedSnapshot one;
  one.isolation = isolation;
  one.seed = seed;
  one.jobs = static_cast<int>(snapshot.jobs.size());
  auto begin = std::chrono::steady_clock::now();
  const Answer ours = AnswerOnline(snapshot);
  one.ours_ms = MsSince(begin);
  one.ours = ours.objective;
  one.gpus_on = ours.gpus_on;
  one.moves = ours.moves;
  begin = std::chrono::steady_clock::now();
  const auto exact = solver(WriteMilp(snapshot));
  one.solver_ms = MsSince(begin);
  if (!exact) return tl::make_unexpected(exact.error());
  one.optimum = exact->objective;
  if (!ours.feasible) one.fault = "ours breaks a rule";
  if (!exact->feasible) one.fault = "the solver finds no placement";
  if (one.fault.empty() && ours.objective < exact->objective - kSame)
    one.fault = "ours is better than the optimum";
  return one;
}

}  // namespace

bool CheckedSnapshot::Same() const { return fault.empty() && std::abs(ours - optimum) < kSame; }

Result<std::vector<CheckedSnapshot>> CheckOptimal(const CheckOptions& options, const ExactSolver& solver,
                                                  const std::function<void(size_t, size_t)>& tell,
                                                  const std::function<bool()>& stop) {
  const size_t total = options.levels.size() * static_cast<size_t>(options.snapshots);
  struct Found {
    explicit Found(size_t count) : slots(count) {}
    base::Mutex mutex;
    std::vector<std::optional<CheckedSnapshot>> slots SPILLWAY_GUARDED_BY(mutex);
    std::optional<Error> error SPILLWAY_GUARDED_BY(mutex);
    size_t done SPILLWAY_GUARDED_BY(mutex) = 0;
  } found(total);
  std::atomic<size_t> next = 0;
  const auto work = [&] {
    for (size_t i = next++; i < total; i = next++) {
      {
        const base::MutexLock lock(found.mutex);
        if (found.error || (stop && stop())) return;
      }
      const Isolation level = options.levels[i / static_cast<size_t>(options.snapshots)];
      auto one = CheckOne(level, options.first_seed + i % static_cast<size_t>(options.snapshots),
                          options.most_jobs, solver);
      const base::MutexLock lock(found.mutex);
      // Ctrl-C reaches the solver, too: what it says then is no answer.
      if (!one && stop && stop()) return;
      if (!one && !found.error) found.error = one.error();
      if (one) found.slots[i] = *one;
      if (tell) tell(++found.done, total);
    }
  };
  std::vector<std::jthread> threads;
  for (unsigned t = 1; t < options.threads; ++t) threads.emplace_back(work);
  work();
  threads.clear();
  const base::MutexLock lock(found.mutex);
  if (found.error) return tl::make_unexpected(*found.error);
  std::vector<CheckedSnapshot> checked;
  for (const auto& slot : found.slots)
    if (slot) checked.push_back(*slot);
  return checked;
}

}  // namespace spillway::scheduler

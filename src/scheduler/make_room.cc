// SPDX-License-Identifier: Apache-2.0
#include "scheduler/make_room.h"

#include <algorithm>
#include <array>
#include <bit>
#include <tuple>

namespace spillway::scheduler {
namespace {

constexpr size_t kTries = 8;

struct Plan {
  int node = -1;
  std::vector<JobId> leave;
  int milli = 0;  // of all that leave
};

// The plans to let the job in at the node that take no more than `most_moves`.
void AddPlans(const Cluster& cluster, const Job& job, int n, int most_moves, std::vector<Plan>& plans) {
  const Node& node = cluster.nodes()[n];
  if (!job.Accepts(node.model) || node.gpus < job.gpus) return;
  std::array<JobId, kMaxGpus> alone = {};  // who has the GPU whole, and nothing else
  std::array<bool, kMaxGpus> has_alone = {};
  std::vector<JobId> without_gpu;
  for (const JobId id : cluster.JobsOn(n)) {
    const Job& there = cluster.JobOf(id);
    if (there.gpus == 0) without_gpu.push_back(id);
    if (there.gpus != 1 || there.Fractional()) continue;
    const int gpu = std::countr_zero(cluster.WholeGpusOf(id));
    alone[gpu] = id, has_alone[gpu] = true;
  }
  // One GPU to be freed as far as is needed, and so for each GPU that the job needs.
  const auto smaller = [&](JobId a, JobId b) {
    return std::tuple(cluster.JobOf(a).milli, a) < std::tuple(cluster.JobOf(b).milli, b);
  };
  std::vector<Plan> by_gpu;
  for (int gpu = 0; gpu < node.gpus; ++gpu) {
    std::vector<JobId> there = cluster.SharersOf(n, gpu);
    if (has_alone[gpu]) there = {alone[gpu]};
    if (node.jobs[gpu] != there.size()) continue;  // of a job with several
    std::sort(there.begin(), there.end(), smaller);
    Plan plan{n, {}, 0};
    const int lacks = (job.Fractional() ? job.milli : kWholeGpu) - node.free[gpu];
    // The smallest that suffices, else the smallest ones together.
    const auto enough =
        std::find_if(there.begin(), there.end(), [&](JobId id) { return cluster.JobOf(id).milli >= lacks; });
    if (lacks > 0 && enough != there.end()) there = {*enough};
    for (size_t i = 0; i < there.size() && plan.milli < lacks; ++i) {
      plan.leave.push_back(there[i]);
      plan.milli += cluster.JobOf(there[i]).milli;
    }
    if (plan.milli >= lacks) by_gpu.push_back(std::move(plan));
  }
  const auto cheaper = [](const Plan& a, const Plan& b) {
    return std::tuple(a.leave.size(), a.milli) < std::tuple(b.leave.size(), b.milli);
  };
  std::stable_sort(by_gpu.begin(), by_gpu.end(), cheaper);
  const auto wanted = static_cast<size_t>(job.gpus);
  if (by_gpu.size() < wanted) return;
  std::sort(without_gpu.begin(), without_gpu.end(), [&](JobId a, JobId b) {
    return std::tuple(cluster.JobOf(a).cpu_milli, a) < std::tuple(cluster.JobOf(b).cpu_milli, b);
  });
  // Of a part of a GPU each GPU is a plan of its own: the one that is cheapest may not free the CPU.
  const size_t variants = job.Fractional() ? by_gpu.size() : 1;
  for (size_t v = 0; v < variants; ++v) {
    Plan plan{n, {}, 0};
    int cpu_short = job.cpu_milli - node.free_cpu, memory_short = job.memory_mib - node.free_memory;
    const auto leaves = [&](JobId id) {
      plan.leave.push_back(id);
      plan.milli += cluster.JobOf(id).TotalMilli();
      cpu_short -= cluster.JobOf(id).cpu_milli;
      memory_short -= cluster.JobOf(id).memory_mib;
    };
    for (size_t i = 0; i < wanted; ++i)
      for (const JobId id : by_gpu[v + i].leave) leaves(id);
    if (cpu_short > 0 || memory_short > 0) {
      // One without GPUs that suffices.
      const auto enough = std::find_if(without_gpu.begin(), without_gpu.end(), [&](JobId id) {
        return cluster.JobOf(id).cpu_milli >= cpu_short && cluster.JobOf(id).memory_mib >= memory_short;
      });
      if (enough == without_gpu.end()) continue;
      leaves(*enough);
    }
    // To move more than comes would be a bad trade.
    if (plan.leave.empty() || plan.leave.size() > static_cast<size_t>(most_moves) ||
        plan.milli >= job.TotalMilli())
      continue;
    plans.push_back(std::move(plan));
  }
}

}  // namespace

std::vector<Move> MakeRoom(Cluster& cluster, Placer& placer, JobId id, const Job& job, int most_moves,
                           int node, const std::function<bool(const Move&)>& may_move) {
  if (job.gpus == 0 || most_moves <= 0) return {};
  std::vector<Plan> plans;
  const int first = std::max(node, 0), end = node >= 0 ? node + 1 : static_cast<int>(cluster.nodes().size());
  for (int n = first; n < end; ++n) AddPlans(cluster, job, n, most_moves, plans);
  const auto cheaper = [](const Plan& a, const Plan& b) {
    return std::tuple(a.leave.size(), a.milli, a.node) < std::tuple(b.leave.size(), b.milli, b.node);
  };
  const size_t tries = std::min(kTries, plans.size());
  std::partial_sort(plans.begin(), plans.begin() + static_cast<std::ptrdiff_t>(tries), plans.end(), cheaper);
  for (size_t t = 0; t < tries; ++t) {
    const Plan& plan = plans[t];
    std::vector<std::pair<Job, Spot>> were;
    for (const JobId leaver : plan.leave) {
      were.emplace_back(cluster.JobOf(leaver), cluster.SpotOf(leaver));
      if (!were.back().first.Fractional()) were.back().second.whole = cluster.WholeGpusOf(leaver);
      cluster.Remove(leaver);
    }
    const auto at = placer.RateOn(job, plan.node);
    std::vector<Move> moves;
    if (at) {
      cluster.Place(id, job, at->spot);
      for (size_t i = 0; i < plan.leave.size(); ++i) {
        const auto to = placer.Decide(were[i].first);
        if (!to || (may_move && !may_move({plan.leave[i], were[i].second, *to}))) break;
        cluster.Place(plan.leave[i], were[i].first, *to);
        moves.push_back({plan.leave[i], were[i].second, *to});
      }
      if (moves.size() == plan.leave.size()) return moves;
      cluster.Remove(id);
    }
    for (const Move& move : moves) cluster.Remove(move.job);
    for (size_t i = 0; i < plan.leave.size(); ++i)
      cluster.Place(plan.leave[i], were[i].first, were[i].second);
  }
  return {};
}

}  // namespace spillway::scheduler

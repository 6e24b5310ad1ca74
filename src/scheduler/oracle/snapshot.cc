// SPDX-License-Identifier: Apache-2.0
#include "scheduler/oracle/snapshot.h"

#include <algorithm>
#include <functional>

#include "base/random.h"
#include "core/ring_build.h"

namespace spillway::scheduler {
namespace {

Cluster MakeCluster(const Snapshot& snapshot) {
  return Cluster(std::vector<Node>(static_cast<size_t>(snapshot.gpus)), {{"GPU", 1, true, 0}},
                 snapshot.rules);
}

Job DrawJob(const std::function<int(int)>& below, int tenants) {
  static constexpr int kSizes[] = {110, 160, 220, 230, 320, 320, 370, 460, 470, 470, 550, 650, 810};
  Job job;
  job.milli = kSizes[below(std::size(kSizes))];
  job.tenant = below(tenants);
  job.move_cost = 1 + below(5);
  return job;
}

}  // namespace

Snapshot DrawSnapshot(uint64_t seed, Isolation isolation, int most_jobs) {
  base::SplitMix64 random(spw_mix64(seed * base::SplitMix64::kStep + 77));
  const auto below = [&](int bound) { return static_cast<int>(random.Below(static_cast<uint64_t>(bound))); };
  Snapshot snapshot;
  snapshot.gpus = most_jobs;
  snapshot.rules.isolation = isolation;
  snapshot.rules.slice_rule = below(2) == 0 ? SliceRule::kCompute : SliceRule::kMemory;
  const int tenants = 2 + below(3);
  const int running = 1 + below(most_jobs - 1);
  Cluster cluster = MakeCluster(snapshot);
  std::vector<JobId> there;
  JobId next = 0;
  const auto arrive = [&] {
    const Job job = DrawJob(below, tenants);
    int best = -1;
    for (int n = 0; n < snapshot.gpus; ++n)
      if (cluster.FitsGpu(job, n, 0) &&
          (best < 0 || cluster.nodes()[n].free[0] < cluster.nodes()[best].free[0]))
        best = n;
    cluster.Place(next, job, {best, 0, -1});
    there.push_back(next++);
  };
  // Twice as many come as stay: departures leave the holes that moves are for.
  while (static_cast<int>(there.size()) < most_jobs - 1) arrive();
  while (static_cast<int>(there.size()) > running) {
    const int gone = below(static_cast<int>(there.size()));
    cluster.Remove(there[gone]);
    there.erase(there.begin() + gone);
  }
  for (const JobId id : there) {
    snapshot.jobs.push_back(cluster.JobOf(id));
    snapshot.homes.push_back(cluster.SpotOf(id));
  }
  snapshot.jobs.push_back(DrawJob(below, tenants));
  snapshot.homes.push_back({});
  return snapshot;
}

Answer AnswerOnline(const Snapshot& snapshot) {
  Cluster cluster = MakeCluster(snapshot);
  const auto newcomer = static_cast<JobId>(snapshot.jobs.size() - 1);
  for (JobId id = 0; id < newcomer; ++id) cluster.Place(id, snapshot.jobs[id], snapshot.homes[id]);
  MovePolicy policy;
  policy.gpu_value = snapshot.gpu_value;
  policy.move_price = snapshot.move_price;
  // Few jobs: time for better plans than in a large cluster.
  policy.pushed_aside = 3;
  policy.effort = 200'000;
  Consolidator consolidator(cluster, policy);
  std::vector<Move> moves;
  if (!consolidator.Arrive(newcomer, snapshot.jobs[newcomer], moves)) return {};
  std::vector<Spot> spots;
  for (JobId id = 0; id <= newcomer; ++id) spots.push_back(cluster.SpotOf(id));
  return Judge(snapshot, spots);
}

Answer Judge(const Snapshot& snapshot, const std::vector<Spot>& spots) {
  Answer answer;
  if (spots.size() != snapshot.jobs.size()) return answer;
  Cluster cluster = MakeCluster(snapshot);
  for (JobId id = 0; id < spots.size(); ++id) {
    const Spot& spot = spots[id];
    if (spot.node < 0 || spot.node >= snapshot.gpus || !cluster.FitsSpot(snapshot.jobs[id], spot))
      return answer;
    cluster.Place(id, snapshot.jobs[id], spot);
    if (snapshot.homes[id].node < 0 || snapshot.homes[id] == cluster.SpotOf(id)) continue;
    ++answer.moves;
    answer.objective += snapshot.move_price * snapshot.jobs[id].move_cost;
  }
  answer.gpus_on = cluster.gpus_on();
  answer.objective += snapshot.gpu_value * answer.gpus_on;
  answer.feasible = cluster.Check().empty();
  answer.spots = spots;
  return answer;
}

}  // namespace spillway::scheduler

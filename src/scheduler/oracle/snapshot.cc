// SPDX-License-Identifier: Apache-2.0
#include "scheduler/oracle/snapshot.h"

#include <functional>
#include <map>
#include <utility>

#include "base/random.h"
#include "core/ring_build.h"
#include "scheduler/make_room.h"
#include "scheduler/placer.h"

namespace spillway::scheduler {
namespace {

// Jobs that may be moved for one that finds no room.
constexpr int kMovesForRoom = 4;

Cluster MakeCluster(const Snapshot& snapshot) {
  return Cluster(snapshot.nodes, snapshot.models, snapshot.rules);
}

Job DrawJob(const std::function<int(int)>& below, int tenants) {
  static constexpr int kSizes[] = {110, 160, 220, 230, 320, 320, 370, 460, 470, 470, 550, 650, 810};
  Job job;
  job.milli = kSizes[below(std::size(kSizes))];
  job.tenant = below(tenants);
  job.move_cost = 1 + below(5);
  return job;
}

std::vector<GpuModel> UnlikeModels() {
  std::vector<GpuModel> models = {{"large", 1, true, 0}, {"half", 1, true, 0}, {"whole", 1, false, 0}};
  models[1].slices = 4;
  return models;
}

// Room for about as many jobs as two thirds of the GPUs that there would be of alike ones.
std::vector<Node> DrawNodes(const std::function<int(int)>& below, int most_jobs, int models) {
  std::vector<Node> nodes;
  for (int gpus = 0; gpus * 3 < most_jobs * 2; gpus += nodes.back().gpus) {
    Node node;
    node.gpus = 1 << below(3);
    node.model = below(models);
    nodes.push_back(node);
  }
  return nodes;
}

// What alike GPUs know nothing of: whole GPUs, and models. Something in the cluster could hold it.
Job DrawUnlikeJob(const std::function<int(int)>& below, int tenants, const Cluster& empty) {
  for (;;) {
    Job job = DrawJob(below, tenants);
    if (below(5) == 0) {
      job.gpus = 1 << below(3);
      job.milli = kWholeGpu;
    }
    if (below(4) == 0) job.models = static_cast<ModelSet>(1 + below((1 << empty.models().size()) - 1));
    for (int n = 0; n < static_cast<int>(empty.nodes().size()); ++n)
      if (empty.FitsNode(job, n)) return job;
  }
}

// The fullest GPU, or the node with fewest idle ones, that has room; node < 0: none.
Spot Tightest(const Cluster& cluster, const Job& job) {
  Spot best;
  int best_free = 0;
  for (int n = 0; n < static_cast<int>(cluster.nodes().size()); ++n) {
    const Node& node = cluster.nodes()[n];
    if (!cluster.FitsNode(job, n)) continue;
    for (int gpu = 0; gpu < (job.Fractional() ? node.gpus : 1); ++gpu) {
      if (job.Fractional() && !cluster.FitsGpu(job, n, gpu)) continue;
      const int free = job.Fractional() ? node.free[gpu] : node.IdleGpus();
      if (best.node < 0 || free < best_free) best = {n, gpu, -1}, best_free = free;
    }
  }
  return best;
}

Spot HomeOf(const Cluster& cluster, JobId id) {
  Spot home = cluster.SpotOf(id);
  home.whole = cluster.WholeGpusOf(id);
  return home;
}

}  // namespace

Snapshot DrawSnapshot(uint64_t seed, Isolation isolation, int most_jobs, bool unlike) {
  base::SplitMix64 random(spw_mix64(seed * base::SplitMix64::kStep + 77));
  const auto below = [&](int bound) { return static_cast<int>(random.Below(static_cast<uint64_t>(bound))); };
  Snapshot snapshot;
  snapshot.rules.isolation = isolation;
  snapshot.rules.slice_rule = below(2) == 0 ? SliceRule::kCompute : SliceRule::kMemory;
  const int tenants = 2 + below(3);
  const int running = 1 + below(most_jobs - 1);
  if (unlike) snapshot.models = UnlikeModels();
  snapshot.nodes =
      unlike ? DrawNodes(below, most_jobs, static_cast<int>(snapshot.models.size())) : AlikeGpus(most_jobs);
  Cluster cluster = MakeCluster(snapshot);
  const Cluster empty = cluster;
  const auto draw = [&] { return unlike ? DrawUnlikeJob(below, tenants, empty) : DrawJob(below, tenants); };
  std::vector<JobId> there;
  JobId next = 0;
  // Twice as many come as stay: departures leave the holes that moves are for. One that finds no room, on
  // unlike GPUs, does not stay.
  for (int come = 0; come < most_jobs - 1; ++come) {
    const Job job = draw();
    const Spot spot = Tightest(cluster, job);
    if (spot.node < 0) continue;
    cluster.Place(next, job, spot);
    there.push_back(next++);
  }
  while (static_cast<int>(there.size()) > running) {
    const int gone = below(static_cast<int>(there.size()));
    cluster.Remove(there[gone]);
    there.erase(there.begin() + gone);
  }
  for (const JobId id : there) {
    snapshot.jobs.push_back(cluster.JobOf(id));
    snapshot.homes.push_back(HomeOf(cluster, id));
  }
  snapshot.jobs.push_back(draw());
  snapshot.homes.push_back({});
  return snapshot;
}

// Nodes with jobs, and idle ones of each kind: the newcomer needs its GPUs, and what is moved for it was on
// so many and needs no more of a kind that it fits.
Snapshot SnapshotOf(const Cluster& cluster, const Job& newcomer, const MovePolicy& policy) {
  Snapshot snapshot;
  snapshot.models = cluster.models();
  snapshot.rules = cluster.rules();
  snapshot.gpu_value = policy.gpu_value;
  snapshot.move_price = policy.move_price;
  std::map<std::pair<int, int>, int> idle_gpus;  // by model and GPUs of the node
  for (int n = 0; n < static_cast<int>(cluster.nodes().size()); ++n) {
    const Node& node = cluster.nodes()[n];
    Node fresh;
    fresh.gpus = node.gpus;
    fresh.model = node.model;
    if (cluster.JobsOn(n).empty()) {
      int& idle = idle_gpus[{node.model, node.gpus}];
      if (idle >= 2 * newcomer.gpus) continue;
      idle += node.gpus;
    }
    for (const JobId id : cluster.JobsOn(n)) {
      snapshot.jobs.push_back(cluster.JobOf(id));
      snapshot.homes.push_back(HomeOf(cluster, id));
      snapshot.homes.back().node = static_cast<int>(snapshot.nodes.size());
    }
    snapshot.nodes.push_back(fresh);
  }
  snapshot.jobs.push_back(newcomer);
  snapshot.homes.push_back({});
  return snapshot;
}

MovePolicy ThoroughMoves() {
  MovePolicy policy;
  policy.pushed_aside = 3;
  policy.effort = 200'000;
  return policy;
}

namespace {

// The heuristic from a snapshot on; each way to let the newcomer in is tried on a cluster of its own.
class OnlineTries {
 public:
  OnlineTries(const Snapshot& snapshot, MovePolicy how)
      : s_(snapshot),
        how_(how),
        newcomer_(static_cast<JobId>(snapshot.jobs.size() - 1)),
        start_(MakeCluster(snapshot)),
        mix_(snapshot.jobs, static_cast<int>(snapshot.models.size())) {
    for (JobId id = 0; id < newcomer_; ++id) start_.Place(id, s_.jobs[id], s_.homes[id]);
    how_.gpu_value = s_.gpu_value;
    how_.move_price = s_.move_price;
  }

  void Arrive() {
    Cluster cluster = start_;
    std::vector<Move> moves;
    if (Consolidator(cluster, how_).Arrive(newcomer_, s_.jobs[newcomer_], moves)) Keep(cluster);
  }
  // Onto GPUs of the node that are off, or made free by moving jobs away.
  void SwitchOn(int n) {
    Cluster cluster = start_;
    const Job& job = s_.jobs[newcomer_];
    const Node& node = cluster.nodes()[n];
    int off = job.Fractional() ? 0 : node.gpus;
    while (off < node.gpus && (node.jobs[off] != 0 || !cluster.FitsGpu(job, n, off))) ++off;
    if (job.Fractional() ? off < node.gpus && cluster.FitsHost(job, node) : cluster.FitsNode(job, n)) {
      cluster.Place(newcomer_, job, {n, job.Fractional() ? off : 0, -1});
    } else {
      Placer placer(cluster, mix_, {Policy::kSpillway, Objective::kFewestGpus});
      if (cluster.FitsNode(job, n) || MakeRoom(cluster, placer, newcomer_, job, kMovesForRoom, n).empty())
        return;
    }
    Consolidator(cluster, how_).Consolidate();
    Keep(cluster);
  }
  [[nodiscard]] Answer best() const { return best_; }

 private:
  void Keep(const Cluster& cluster) {
    std::vector<Spot> spots;
    for (JobId id = 0; id <= newcomer_; ++id) spots.push_back(HomeOf(cluster, id));
    Answer answer = Judge(s_, spots);
    // One that breaks a rule is kept, to be seen.
    if (best_.spots.empty() || !answer.feasible || (best_.feasible && answer.objective < best_.objective))
      best_ = std::move(answer);
  }

  const Snapshot& s_;
  MovePolicy how_;
  const JobId newcomer_;
  Cluster start_;
  const JobMix mix_;
  Answer best_;
};

}  // namespace

Answer AnswerOnline(const Snapshot& snapshot, MovePolicy how) {
  OnlineTries tries(snapshot, how);
  const bool part = snapshot.jobs.back().Fractional();
  if (part) tries.Arrive();
  // Where GPUs are alike any that is off is as good.
  if (!part || snapshot.models.size() > 1)
    for (int n = 0; n < static_cast<int>(snapshot.nodes.size()); ++n) tries.SwitchOn(n);
  return tries.best();
}

Answer Judge(const Snapshot& snapshot, const std::vector<Spot>& spots) {
  Answer answer;
  if (spots.size() != snapshot.jobs.size()) return answer;
  answer.spots = spots;
  Cluster cluster = MakeCluster(snapshot);
  const int nodes = static_cast<int>(snapshot.nodes.size());
  for (JobId id = 0; id < spots.size(); ++id) {
    const Spot& spot = spots[id];
    if (spot.node < 0 || spot.node >= nodes || !cluster.WhyNot(snapshot.jobs[id], spot).empty())
      return answer;
    cluster.Place(id, snapshot.jobs[id], spot);
    if (snapshot.homes[id].node < 0 || snapshot.homes[id] == HomeOf(cluster, id)) continue;
    ++answer.moves;
    answer.objective += snapshot.move_price * snapshot.jobs[id].move_cost;
  }
  answer.gpus_on = cluster.gpus_on();
  answer.objective += snapshot.gpu_value * answer.gpus_on;
  answer.feasible = cluster.Check().empty();
  return answer;
}

}  // namespace spillway::scheduler

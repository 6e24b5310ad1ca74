// SPDX-License-Identifier: Apache-2.0
#include "scheduler/consolidation.h"

#include <algorithm>
#include <tuple>
#include <unordered_map>
#include <unordered_set>

#include "base/random.h"
#include "core/ring_build.h"

namespace spillway::scheduler {
namespace {

// Sums of prices that should be equal are.
constexpr double kEpsilon = 1e-9;
// So many pushed aside: the effort is there to try unlikely ones, too.
constexpr int kThorough = 2;

}  // namespace

void Consolidator::Hold(JobId id, bool leaves) {
  if (holds_.size() <= id) holds_.resize(id + 1, Holding::kFree);
  holds_[id] = leaves ? Holding::kLeaves : Holding::kStays;
}

void Consolidator::Release(JobId id) {
  if (id < holds_.size()) holds_[id] = Holding::kFree;
}

bool Consolidator::GoingOff(int node, int gpu) const {
  const std::vector<JobId>& sharers = cluster_.SharersOf(node, gpu);
  return !sharers.empty() && std::all_of(sharers.begin(), sharers.end(), [&](JobId id) {
    return id < holds_.size() && holds_[id] == Holding::kLeaves;
  });
}

std::vector<Consolidator::GpuRef> Consolidator::SharedGpus() const {
  std::vector<GpuRef> gpus;
  const auto& nodes = cluster_.nodes();
  for (int n = 0; n < static_cast<int>(nodes.size()); ++n)
    for (int gpu = 0; gpu < nodes[n].gpus; ++gpu)
      if (!cluster_.SharersOf(n, gpu).empty() && !GoingOff(n, gpu)) gpus.push_back({n, gpu});
  return gpus;
}

// GPUs of one kind are as good as each other for any job.
uint64_t Consolidator::KindOf(const GpuRef& ref) const {
  const Node& node = cluster_.nodes()[ref.node];
  uint64_t kind = static_cast<uint64_t>(node.free[ref.gpu]) |
                  static_cast<uint64_t>(node.slices[ref.gpu]) << 10 |
                  static_cast<uint64_t>(node.model) << 18 |
                  static_cast<uint64_t>(static_cast<uint32_t>(node.tenant[ref.gpu])) << 24;
  // Where the host is what may be short, every node is a kind of its own.
  if (node.cpu_milli != kUnlimited || node.memory_mib != kUnlimited)
    kind = spw_mix64(kind + static_cast<uint64_t>(ref.node + 1) * base::SplitMix64::kStep);
  return kind;
}

double Consolidator::CostOf(JobId id) const {
  return id == newcomer_ ? 0 : jobs_[id].move_cost * policy_.move_price;
}

double Consolidator::CostAt(JobId id, int node) const {
  return CostOf(id) + (loss_ && id != newcomer_ ? loss_(id, node) : 0);
}

bool Consolidator::Emptied(const GpuRef& gpu) const {
  return std::find(emptied_.begin(), emptied_.end(), gpu) != emptied_.end();
}

bool Consolidator::Moved(JobId id) const {
  return std::any_of(plan_.begin(), plan_.end(), [&](const Step& step) { return step.job == id; });
}

// Of the plan that is in force and empties GPUs: on each GPU that it changes, the job that stays longest says
// for how long it is on, without the plan and with it. A job works on where it was until its move is over.
bool Consolidator::PaysBack() const {
  if (!outlook_) return true;
  struct Stay {
    GpuRef gpu;
    double before = 0, after = 0;
  };
  std::vector<Stay> stays;
  const auto at = [&](const Spot& spot) -> Stay& {
    const GpuRef ref{spot.node, spot.gpu};
    const auto found =
        std::find_if(stays.begin(), stays.end(), [&](const Stay& stay) { return stay.gpu == ref; });
    return found != stays.end() ? *found : stays.emplace_back(Stay{ref});
  };
  const auto longer = [](double& stay, double seconds) { stay = std::max(stay, seconds); };
  const auto speed = [&](int node) { return cluster_.models()[cluster_.nodes()[node].model].speed; };
  double held_twice = 0;  // GPU-seconds
  for (const Step& step : plan_) {
    const Spot& home = homes_[step.job];
    const double stays_s = outlook_(step.job);
    const double moving_s = step.job == newcomer_ ? 0 : std::min(stays_s, policy_.move_seconds);
    longer(at(home).before, stays_s);
    longer(at(home).after, moving_s);
    longer(at(step.to).after, moving_s + (stays_s - moving_s) * speed(home.node) / speed(step.to.node));
    held_twice += moving_s * cluster_.ShareOn(jobs_[step.job], cluster_.nodes()[home.node]) / kWholeGpu;
  }
  double saved = -held_twice;
  for (Stay& stay : stays) {
    for (const JobId id : cluster_.SharersOf(stay.gpu.node, stay.gpu.gpu)) {
      if (Moved(id)) continue;
      const double stays_s = outlook_(id);
      longer(stay.before, stays_s);
      longer(stay.after, stays_s);
    }
    saved += stay.before - stay.after;
  }
  return saved > 0;
}

// The jobs in `waiting` are nowhere; the rest of `plan_` is in force.
void Consolidator::Search(std::vector<JobId>& waiting, double cost, int aside) {
  double rest = 0;
  for (const JobId id : waiting) rest += CostOf(id);
  if (cost + rest >= best_cost_ - kEpsilon || effort_left_ <= 0) return;
  auto moves = static_cast<int64_t>(plan_.size() + waiting.size());
  if (newcomer_ != kNobody &&
      (Moved(newcomer_) || std::find(waiting.begin(), waiting.end(), newcomer_) != waiting.end()))
    --moves;
  if (moves > policy_.budget - moves_) return;
  if (waiting.empty()) {
    if (emptying_ && !PaysBack()) return;
    best_cost_ = cost;
    best_plan_ = plan_;
    return;
  }
  // The largest has the least choice.
  const auto largest = std::max_element(waiting.begin(), waiting.end(),
                                        [&](JobId a, JobId b) { return jobs_[a].milli < jobs_[b].milli; });
  const JobId id = *largest;
  waiting.erase(largest);
  TryPlace(waiting, id, cost, aside);
  if (aside > 0) TryPushAside(waiting, id, cost, aside);
  waiting.push_back(id);
}

// The places on a GPU to try: the one that leaves the most, or, where there is time, all.
std::vector<int> Consolidator::StartsFor(JobId id, int node) const {
  const bool slices = cluster_.rules().isolation == Isolation::kFraction &&
                      cluster_.models()[cluster_.nodes()[node].model].mig;
  if (!slices || policy_.pushed_aside < kThorough) return {-1};
  return ShapeOf(SliceOf(jobs_[id], cluster_.rules().slice_rule)).starts;
}

void Consolidator::TryPlace(std::vector<JobId>& waiting, JobId id, double cost, int aside) {
  std::vector<std::pair<int, GpuRef>> places;
  std::unordered_set<uint64_t> kinds;
  effort_left_ -= static_cast<int>(gpus_.size());
  for (const GpuRef& ref : gpus_) {
    const Node& node = cluster_.nodes()[ref.node];
    if (Emptied(ref) || !cluster_.FitsHost(jobs_[id], node) ||
        !cluster_.FitsGpu(jobs_[id], ref.node, ref.gpu) || !kinds.insert(KindOf(ref)).second)
      continue;
    places.emplace_back(node.free[ref.gpu], ref);
  }
  // The tightest first.
  std::stable_sort(places.begin(), places.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  for (const auto& [free, ref] : places)
    for (const int start : StartsFor(id, ref.node)) {
      const Spot spot{ref.node, ref.gpu, start};
      if (!cluster_.FitsSpot(jobs_[id], spot)) continue;
      cluster_.Place(id, jobs_[id], spot);
      plan_.push_back({id, cluster_.SpotOf(id)});
      Search(waiting, cost + CostAt(id, ref.node), aside);
      plan_.pop_back();
      cluster_.Remove(id);
      if (effort_left_ <= 0) return;
    }
}

void Consolidator::TryPushAside(std::vector<JobId>& waiting, JobId id, double cost, int aside) {
  std::unordered_set<uint64_t> kinds;
  for (const GpuRef& ref : gpus_) {
    if (Emptied(ref)) continue;
    const uint64_t kind = KindOf(ref);
    const std::vector<JobId> sharers = cluster_.SharersOf(ref.node, ref.gpu);
    effort_left_ -= static_cast<int>(sharers.size());
    for (const JobId other : sharers) {
      if (Moved(other) || Held(other)) continue;
      const Spot home = cluster_.SpotOf(other);
      const Job job = cluster_.JobOf(other);
      const uint64_t place = static_cast<uint64_t>(job.milli) << 8 | static_cast<uint64_t>(home.start + 1);
      // What they lose elsewhere may differ from job to job.
      const uint64_t price = static_cast<uint64_t>(job.move_cost * 1024) ^ (loss_ ? spw_mix64(other + 1) : 0);
      // A larger one would be harder to place than this one, unless it costs nothing.
      if (job.milli >= jobs_[id].milli && other != newcomer_ && policy_.pushed_aside < kThorough) continue;
      if (!kinds.insert(spw_mix64(kind ^ spw_mix64(place ^ price << 24) ^ (other == newcomer_ ? 1 : 0)))
               .second)
        continue;
      Remember(other);
      cluster_.Remove(other);
      for (const int start : StartsFor(id, ref.node)) {
        if (!cluster_.FitsSpot(jobs_[id], {ref.node, ref.gpu, start})) continue;
        cluster_.Place(id, jobs_[id], {ref.node, ref.gpu, start});
        plan_.push_back({id, cluster_.SpotOf(id)});
        waiting.push_back(other);
        Search(waiting, cost + CostAt(id, ref.node), aside - 1);
        std::erase(waiting, other);
        plan_.pop_back();
        cluster_.Remove(id);
      }
      cluster_.Place(other, job, home);
      if (effort_left_ <= 0) return;
    }
  }
}

void Consolidator::Remember(JobId id) {
  if (jobs_.size() <= id) {
    jobs_.resize(id + 1);
    homes_.resize(id + 1);
  }
  jobs_[id] = cluster_.JobOf(id);
  homes_[id] = cluster_.SpotOf(id);
}

// The GPUs that might be emptied, those first that cost least; what all that are on have left.
std::vector<Consolidator::Candidate> Consolidator::Candidates(int& free) {
  std::vector<Candidate> candidates;
  free = 0;
  for (const GpuRef& ref : gpus_) {
    const Node& node = cluster_.nodes()[ref.node];
    const std::vector<JobId>& there = cluster_.SharersOf(ref.node, ref.gpu);
    free += node.free[ref.gpu];
    if (std::any_of(there.begin(), there.end(), [&](JobId id) { return Held(id); })) continue;
    Candidate one{0, cluster_.CapacityOf(node) - node.free[ref.gpu], node.free[ref.gpu], ref};
    for (const JobId id : there) {
      Remember(id);
      one.cost += CostOf(id);
    }
    candidates.push_back(one);
  }
  std::stable_sort(candidates.begin(), candidates.end(), [](const Candidate& a, const Candidate& b) {
    return std::tie(a.cost, a.load) < std::tie(b.cost, b.load);
  });
  return candidates;
}

bool Consolidator::EmptyOne(std::vector<Move>& moves) {
  gpus_ = SharedGpus();
  int free = 0;
  const std::vector<Candidate> candidates = Candidates(free);
  std::vector<std::vector<size_t>> sets;  // of candidates to empty together
  for (size_t a = 0; a < candidates.size(); ++a) sets.push_back({a});
  if (policy_.pushed_aside >= kThorough)
    for (size_t a = 0; a < candidates.size(); ++a)
      for (size_t b = 0; b < a; ++b) sets.push_back({b, a});
  best_plan_.clear();
  double best_gain = 0;
  effort_left_ = policy_.effort;
  emptying_ = true;
  for (const auto& set : sets) {
    double cost = 0;
    int load = 0, room = free;
    std::vector<JobId> residents;
    for (const size_t c : set) {
      const Candidate& one = candidates[c];
      cost += one.cost;
      load += one.load;
      room -= one.room;
      const auto& sharers = cluster_.SharersOf(one.gpu.node, one.gpu.gpu);
      residents.insert(residents.end(), sharers.begin(), sharers.end());
    }
    const double worth = policy_.gpu_value * static_cast<double>(set.size());
    if (effort_left_ <= 0) break;
    if (cost >= worth - best_gain - kEpsilon || room < load) continue;
    for (const JobId id : residents) cluster_.Remove(id);
    emptied_.clear();
    for (const size_t c : set) emptied_.push_back(candidates[c].gpu);
    best_cost_ = worth - best_gain;
    std::vector<JobId> waiting = residents;
    Search(waiting, 0, Aside());
    best_gain = worth - best_cost_;
    emptied_.clear();
    for (const JobId id : residents) cluster_.Place(id, jobs_[id], homes_[id]);
  }
  emptying_ = false;
  if (best_plan_.empty()) return false;
  CarryOut(moves);
  return true;
}

// A plan holds in its order from when its jobs are gone: first all leave.
void Consolidator::CarryOut(std::vector<Move>& moves) {
  std::vector<Move> made;
  for (const Step& step : best_plan_) {
    made.push_back({step.job, cluster_.SpotOf(step.job), step.to});
    cluster_.Remove(step.job);
  }
  for (const Step& step : best_plan_) cluster_.Place(step.job, jobs_[step.job], step.to);
  for (const Move& move : made) {
    if (move.job == newcomer_) continue;
    moves.push_back(move);
    ++moves_;
    if (policy_.move_seconds > 0) Hold(move.job);
  }
}

std::vector<Move> Consolidator::Consolidate() {
  std::vector<Move> moves;
  while (moves_ < policy_.budget && EmptyOne(moves)) {
  }
  return moves;
}

// A GPU that is going off and has room stays on for it; else the first that is off.
std::optional<Spot> Consolidator::PlaceThatSwitchesOn(const Job& job) const {
  const auto& nodes = cluster_.nodes();
  std::optional<Spot> off;
  for (int n = 0; n < static_cast<int>(nodes.size()); ++n)
    for (int gpu = 0; gpu < nodes[n].gpus; ++gpu) {
      const bool is_off = nodes[n].jobs[gpu] == 0, going_off = GoingOff(n, gpu);
      if ((!is_off || off) && !going_off) continue;
      if (!cluster_.FitsSpot(job, {n, gpu, -1})) continue;
      if (going_off) return Spot{n, gpu, -1};
      off = Spot{n, gpu, -1};
      if (holds_.empty()) return off;  // nothing is going off anywhere
    }
  return off;
}

bool Consolidator::Arrive(JobId id, const Job& job, std::vector<Move>& moves) {
  if (jobs_.size() <= id) {
    jobs_.resize(id + 1);
    homes_.resize(id + 1);
  }
  jobs_[id] = job;
  const std::optional<Spot> off = PlaceThatSwitchesOn(job);
  gpus_ = SharedGpus();
  newcomer_ = id;
  best_cost_ = off ? policy_.gpu_value : std::numeric_limits<double>::max();
  best_plan_.clear();
  effort_left_ = policy_.effort;
  std::vector<JobId> waiting = {id};
  Search(waiting, 0, Aside());
  if (best_plan_.empty() && !off) {
    newcomer_ = kNobody;
    return false;
  }
  if (best_plan_.empty()) {
    cluster_.Place(id, job, *off);
  } else {
    for (const Step& step : best_plan_) {
      if (step.job == id) continue;
      moves.push_back({step.job, cluster_.SpotOf(step.job), step.to});
      ++moves_;
      cluster_.Remove(step.job);
    }
    for (const Step& step : best_plan_) cluster_.Place(step.job, jobs_[step.job], step.to);
  }
  while (moves_ < policy_.budget && EmptyOne(moves)) {
  }
  newcomer_ = kNobody;
  return true;
}

}  // namespace spillway::scheduler

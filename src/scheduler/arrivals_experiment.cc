// SPDX-License-Identifier: Apache-2.0
#include "scheduler/arrivals_experiment.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <deque>
#include <limits>
#include <memory>
#include <optional>
#include <queue>
#include <unordered_map>

#include "base/random.h"
#include "scheduler/look_ahead.h"
#include "scheduler/make_room.h"
#include "scheduler/placement_experiment.h"

namespace spillway::scheduler {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr int kMovesPerJob = 4;   // to make room for one
constexpr int kHeadsPerNode = 4;  // of those that wait: for which room is made where something left

class Dice {
 public:
  explicit Dice(uint64_t seed) : bits_(spw_mix64(seed * base::SplitMix64::kStep + 2)) {}
  double Unit() { return (static_cast<double>(bits_.Bits() >> 11) + 0.5) * 0x1p-53; }  // (0, 1)
  size_t Below(size_t bound) { return bits_.Below(bound); }

 private:
  base::SplitMix64 bits_;
};

double MilliOf(const Job& job) { return job.TotalMilli(); }

// A mean over time that begins at `from`, and the means of equal parts of [from, to].
class TimeMean {
 public:
  TimeMean(double from, double to) : from_(from), to_(to), last_(from), parts_(kArrivalsParts, 0) {}
  // The value was `value` from the last time on until `now`.
  void Advance(double now, double value) {
    const double part = (to_ - from_) / kArrivalsParts;
    now = std::min(now, to_);
    while (last_ < now && part > 0) {
      const auto at = std::min<size_t>(static_cast<size_t>((last_ - from_) / part), kArrivalsParts - 1);
      double end = at + 1 == kArrivalsParts ? now : std::min(now, from_ + static_cast<double>(at + 1) * part);
      if (end <= last_) end = now;  // rounding
      parts_[at] += (end - last_) * value / part;
      sum_ += (end - last_) * value;
      last_ = end;
    }
  }
  [[nodiscard]] double Mean() const { return to_ > from_ ? sum_ / (to_ - from_) : 0; }
  [[nodiscard]] const std::vector<double>& parts() const { return parts_; }

 private:
  double from_, to_, last_, sum_ = 0;
  std::vector<double> parts_;
};

class Run {
 public:
  Run(const NodeList& nodes, const JobList& list, const ArrivalsOrder& order, const PlacerOptions& how,
      const ArrivalsOptions& options, int moves_per_100)
      : options_(options),
        order_(order),
        models_(nodes.models.size()),
        cluster_(ShuffleNodes(nodes.nodes, how.seed), nodes.models),
        list_mix_(JobsOf(list), static_cast<int>(models_)),
        placer_(cluster_, list_mix_, how),
        fragmented_(cluster_.nodes().size(), 0) {
    jobs_ = order.first;
    jobs_.insert(jobs_.end(), order.then.begin(), order.then.end());
    started_.assign(jobs_.size(), kNever);
    run_.policy = how.policy;
    run_.seed = how.seed;
    run_.moves_per_100 = moves_per_100;
    looks_ahead_ = how.policy == Policy::kSpillway;
    if (looks_ahead_ && !options.learn) LearnFrom(JobsOf(list), {});
  }

  ArrivalsRun Go() {
    const double end = order_.then.empty() ? 0 : order_.then.back().arrives;
    const auto warm = static_cast<size_t>(kWarmUp * static_cast<double>(order_.then.size()));
    measure_from_ = order_.then.empty() ? 0 : order_.then[warm].arrives;
    TimeMean allocated(measure_from_, end), fragmented(measure_from_, end), waiting(measure_from_, end);
    const double all = static_cast<double>(cluster_.gpus()) * kWholeGpu;
    const auto advance = [&](double now) {
      if (now <= measure_from_) return;
      TakeStock();
      allocated.Advance(now, 100.0 * static_cast<double>(cluster_.allocated_milli()) / all);
      fragmented.Advance(now, 100 * fragmented_sum_ / all);
      waiting.Advance(now, 100 * waiting_milli_ / all);
    };
    for (JobId id = 0; id < jobs_.size(); ++id) {
      const double now = jobs_[id].arrives;
      while (!leaving_.empty() && leaving_.top().at <= now) {
        const Leaving next = leaving_.top();
        advance(next.at);
        leaving_.pop();
        Leave(next);
      }
      advance(now);
      Arrive(id, now);
    }
    run_.allocated_pct = allocated.Mean();
    run_.fragmented_pct = fragmented.Mean();
    run_.waiting_pct = waiting.Mean();
    run_.curve = allocated.parts();
    CountDelays(order_.first.size() + warm, end);
    run_.moves = order_.then.empty() ? 0 : 100.0 * moves_ / static_cast<double>(order_.then.size());
    return run_;
  }

 private:
  struct Leaving {
    double at;
    JobId id;
    bool operator<(const Leaving& other) const {  // a priority queue has the greatest on top
      return at != other.at ? at > other.at : id > other.id;
    }
  };

  static std::vector<Job> JobsOf(const JobList& list) {
    std::vector<Job> jobs;
    for (const TraceJob& one : list.jobs) jobs.push_back(one.job);
    return jobs;
  }

  void LearnFrom(const std::vector<Job>& running, const std::vector<Job>& waiting) {
    // The old one stays until the placer has the new one.
    auto next = std::make_unique<LookAhead>(running, waiting, cluster_.nodes(), models_);
    placer_.Learn(next->mix(), &next->fill());
    look_ahead_ = std::move(next);
    ++run_.learnt;
  }

  // Before the one that comes is among those that are there.
  void LearnIfOld() {
    if (!looks_ahead_ || !options_.learn || came_ < learn_at_) return;
    std::vector<Job> running, waiting;
    for (JobId id = 0; id + 1 < came_; ++id) {
      if (cluster_.Placed(id)) running.push_back(jobs_[id].job);
      if (started_[id] == kNever) waiting.push_back(jobs_[id].job);
    }
    learn_at_ = came_ + LookAhead::GoodFor(running.size());
    LearnFrom(running, waiting);
  }

  void Start(JobId id, double now) {
    started_[id] = now;
    leaving_.push({now + jobs_[id].lasts, id});
  }

  bool TryPlace(JobId id, double now) {
    const auto spot = placer_.Decide(jobs_[id].job);
    if (!spot) return false;
    cluster_.Place(id, jobs_[id].job, *spot);
    Start(id, now);
    return true;
  }

  void Arrive(JobId id, double now) {
    ++came_;
    LearnIfOld();
    const Job& job = jobs_[id].job;
    Shape& shape = ShapeOf(job);
    // Behind those of its kind.
    if (shape.waiting.empty() && (TryPlace(id, now) || TryMakeRoom(id, now, -1))) return;
    shape.waiting.push_back(id);
    waiting_milli_ += MilliOf(job);
  }

  bool TryMakeRoom(JobId id, double now, int node) {
    const double allowed =
        0.01 * run_.moves_per_100 * (static_cast<double>(came_) - static_cast<double>(order_.first.size())) -
        moves_;
    const int most = static_cast<int>(std::min<double>(allowed, kMovesPerJob));
    if (most < 1 || came_ < order_.first.size()) return false;
    const auto moves = MakeRoom(cluster_, placer_, id, jobs_[id].job, most, node);
    if (moves.empty()) return false;
    moves_ += static_cast<double>(moves.size());
    Start(id, now);
    // What a move leaves may fit another that waits.
    for (const Move& move : moves) Serve(move.from.node, now);
    return true;
  }

  void Leave(const Leaving& gone) {
    const int node = cluster_.SpotOf(gone.id).node;
    cluster_.Remove(gone.id);
    Serve(node, gone.at);
    if (run_.moves_per_100 > 0) ServeByMoves(node, gone.at);
  }

  // What left may be most of what one that waits needs there.
  void ServeByMoves(int node, double now) {
    std::vector<Shape*> heads;
    for (Shape* shape : order_of_shapes_)
      if (!shape->waiting.empty() && jobs_[shape->waiting.front()].job.gpus > 0) heads.push_back(shape);
    const size_t count = std::min<size_t>(heads.size(), kHeadsPerNode);
    std::partial_sort(heads.begin(), heads.begin() + static_cast<std::ptrdiff_t>(count), heads.end(),
                      [](const Shape* a, const Shape* b) { return a->waiting.front() < b->waiting.front(); });
    for (size_t i = 0; i < count; ++i) {
      const JobId id = heads[i]->waiting.front();
      heads[i]->waiting.pop_front();
      if (TryMakeRoom(id, now, node)) {
        waiting_milli_ -= MilliOf(jobs_[id].job);
        return;
      }
      heads[i]->waiting.push_front(id);
    }
  }

  // Those that wait fit nowhere but perhaps on the node where something left.
  void Serve(int node, double now) {
    for (;;) {
      Shape* first = nullptr;
      for (Shape* shape : order_of_shapes_) {
        if (shape->waiting.empty()) continue;
        const JobId head = shape->waiting.front();
        if ((first == nullptr || head < first->waiting.front()) && cluster_.FitsNode(jobs_[head].job, node))
          first = shape;
      }
      if (first == nullptr || !TryPlace(first->waiting.front(), now)) return;
      waiting_milli_ -= MilliOf(jobs_[first->waiting.front()].job);
      first->waiting.pop_front();
    }
  }

  void CountDelays(JobId from, double end) {
    std::vector<double> delays;
    double sum = 0, several_sum = 0;
    size_t delayed = 0, several = 0;
    for (JobId id = from; id < jobs_.size(); ++id) {
      const double delay = std::min(started_[id], end) - jobs_[id].arrives;
      delays.push_back(delay);
      sum += delay;
      if (jobs_[id].job.gpus > 1) ++several, several_sum += delay;
      delayed += started_[id] > jobs_[id].arrives ? 1 : 0;
    }
    if (delays.empty()) return;
    std::sort(delays.begin(), delays.end());
    const auto count = static_cast<double>(delays.size());
    const auto at = [&](double share) { return delays[static_cast<size_t>(share * (count - 1))]; };
    run_.delay_mean_s = sum / count;
    if (several > 0) run_.delay_several_gpus_mean_s = several_sum / static_cast<double>(several);
    run_.delay_p50_s = at(0.5);
    run_.delay_p99_s = at(0.99);
    run_.delayed_pct = 100.0 * static_cast<double>(delayed) / count;
  }

  // The fragmentation of the nodes that changed since.
  void TakeStock() {
    const auto look = [&](int n) {
      const Node& node = cluster_.nodes()[static_cast<size_t>(n)];
      double& was = fragmented_[static_cast<size_t>(n)];
      const double is = list_mix_.Fragmentation(node.model, node.free_cpu, node.free.data(), node.gpus);
      fragmented_sum_ += is - was;
      was = is;
    };
    if (cluster_.changes() - stock_at_ >= Cluster::kChangesKept || stock_at_ == 0) {
      for (size_t n = 0; n < fragmented_.size(); ++n) look(static_cast<int>(n));
    } else {
      for (; stock_at_ < cluster_.changes(); ++stock_at_) look(cluster_.ChangedNode(stock_at_));
    }
    stock_at_ = cluster_.changes();
  }

  struct Shape {
    std::deque<JobId> waiting;
  };
  struct ShapeHash {
    size_t operator()(const Job& job) const {
      uint64_t hash = job.models;
      for (const int part : {job.cpu_milli, job.memory_mib, job.gpus, job.milli})
        hash = spw_mix64(hash * base::SplitMix64::kStep + static_cast<uint32_t>(part));
      return hash;
    }
  };
  Shape& ShapeOf(const Job& job) {
    auto& shape = shapes_[job];
    if (shape == nullptr) {
      shape = std::make_unique<Shape>();
      order_of_shapes_.push_back(shape.get());
    }
    return *shape;
  }

  const ArrivalsOptions& options_;
  const ArrivalsOrder& order_;
  size_t models_;
  Cluster cluster_;
  JobMix list_mix_;
  Placer placer_;
  std::unique_ptr<LookAhead> look_ahead_;
  bool looks_ahead_ = false;
  std::vector<TimedJob> jobs_;   // by id: those of the beginning, then those that come
  std::vector<double> started_;  // by id; kNever: waits, or has not come
  std::priority_queue<Leaving> leaving_;
  std::unordered_map<Job, std::unique_ptr<Shape>, ShapeHash> shapes_;
  std::vector<Shape*> order_of_shapes_;
  size_t came_ = 0, learn_at_ = 0;
  double moves_ = 0, waiting_milli_ = 0, measure_from_ = 0;
  std::vector<double> fragmented_;  // by node
  double fragmented_sum_ = 0;
  uint64_t stock_at_ = 0;
  ArrivalsRun run_;
};

}  // namespace

void BorrowDurations(JobList& list, const JobList& from) {
  const auto sort_of = [](const Job& job) {
    return job.gpus == 0 ? 0 : job.Fractional() ? 1 : job.gpus == 1 ? 2 : 3;
  };
  std::array<std::vector<int64_t>, 4> lasts;
  std::vector<int64_t> any;
  for (const TraceJob& one : from.jobs) {
    lasts[static_cast<size_t>(sort_of(one.job))].push_back(one.leaves_s - one.arrives_s);
    any.push_back(one.leaves_s - one.arrives_s);
  }
  if (any.empty()) return;
  std::array<size_t, 4> next = {};
  for (TraceJob& one : list.jobs) {
    const auto sort = static_cast<size_t>(sort_of(one.job));
    const std::vector<int64_t>& pool = lasts[sort].empty() ? any : lasts[sort];
    one.arrives_s = 0;
    one.leaves_s = pool[next[sort]++ % pool.size()];
  }
  list.timed = true;
}

ArrivalsOrder DrawArrivals(const JobList& list, int64_t milli, const ArrivalsOptions& options,
                           uint64_t seed) {
  std::vector<double> lasts, until;  // until: sums, to draw in proportion to the duration
  double sum = 0, milli_seconds = 0;
  for (const TraceJob& one : list.jobs) {
    auto seconds = static_cast<double>(one.leaves_s - one.arrives_s);
    if (options.longest_s > 0) seconds = std::min(seconds, static_cast<double>(options.longest_s));
    lasts.push_back(seconds);
    until.push_back(sum += seconds);
    milli_seconds += seconds * MilliOf(one.job);
  }
  ArrivalsOrder order;
  if (milli_seconds <= 0) return order;
  const auto count = static_cast<double>(list.jobs.size());
  const double per_second = 0.01 * options.load_pct * static_cast<double>(milli) / (milli_seconds / count);
  Dice dice(seed);
  // Those that are there: as many as come in a mean duration (Little's law).
  const auto there = static_cast<size_t>(std::llround(per_second * sum / count));
  for (size_t i = 0; i < there; ++i) {
    const auto at = std::upper_bound(until.begin(), until.end(), dice.Unit() * sum) - until.begin();
    const auto j = std::min<size_t>(static_cast<size_t>(at), list.jobs.size() - 1);
    order.first.push_back({list.jobs[j].job, 0, lasts[j] * dice.Unit()});
  }
  double now = 0;
  for (int i = 0; i < options.arrivals; ++i) {
    now -= std::log(dice.Unit()) / per_second;
    const size_t j = dice.Below(list.jobs.size());
    order.then.push_back({list.jobs[j].job, now, lasts[j]});
  }
  return order;
}

ArrivalsRun RunArrivalsOnce(const NodeList& nodes, const JobList& list, const ArrivalsOrder& order,
                            const PlacerOptions& how, const ArrivalsOptions& options, int moves_per_100) {
  return Run(nodes, list, order, how, options, moves_per_100).Go();
}

std::vector<ArrivalsRun> RunArrivals(const NodeList& nodes, const JobList& list,
                                     const ArrivalsOptions& options,
                                     const std::function<void(size_t, size_t)>& tell,
                                     const std::function<bool()>& stop) {
  int64_t milli = 0;
  for (const Node& node : nodes.nodes) milli += int64_t{node.gpus} * kWholeGpu;
  std::vector<ArrivalsRun> runs;
  const size_t total =
      options.policies.size() * options.moves_per_100.size() * static_cast<size_t>(options.seeds);
  for (int seed = 1; seed <= options.seeds; ++seed) {
    const ArrivalsOrder order = DrawArrivals(list, milli, options, static_cast<uint64_t>(seed));
    for (const int moves : options.moves_per_100)
      for (const Policy policy : options.policies) {
        if (stop && stop()) return runs;
        runs.push_back(RunArrivalsOnce(nodes, list, order,
                                       {policy, Objective::kFragmentation, static_cast<uint64_t>(seed)},
                                       options, moves));
        if (tell) tell(runs.size(), total);
      }
  }
  return runs;
}

}  // namespace spillway::scheduler

// SPDX-License-Identifier: Apache-2.0
#include "scheduler/replay/arrivals_experiment.h"

#include <algorithm>
#include <deque>
#include <limits>
#include <memory>
#include <optional>
#include <queue>
#include <unordered_map>

#include "base/random.h"
#include "scheduler/look_ahead.h"
#include "scheduler/make_room.h"
#include "scheduler/replay/placement_experiment.h"

namespace spillway::scheduler {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr int kMovesPerJob = 4;   // to make room for one
constexpr int kHeadsPerNode = 4;  // of those that wait: for which room is made where something left

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
  Run(const NodeList& nodes, const JobList& list, const ArrivalsOrder& order, const ArrivalsContestant& who,
      uint64_t seed)
      : order_(order),
        models_(nodes.models.size()),
        cluster_(ShuffleNodes(nodes.nodes, seed), nodes.models),
        list_mix_(JobsOf(list), static_cast<int>(models_)),
        placer_(cluster_, list_mix_, {who.policy, Objective::kFragmentation, seed}),
        fragmented_(cluster_.nodes().size(), 0) {
    jobs_ = order.first;
    jobs_.insert(jobs_.end(), order.then.begin(), order.then.end());
    started_.assign(jobs_.size(), kNever);
    run_.who = who;
    run_.seed = seed;
    if (who.policy == Policy::kSpillway && who.demand == Demand::kList) LearnFrom(JobsOf(list), {});
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
    ++run_.learnt;
    // What was learnt before stays until the placer has the new.
    if (run_.who.policy != Policy::kSpillway) {  // FGD: it asks for no prices
      auto next = std::make_unique<JobMix>(ExpectedJobs(running, waiting, cluster_.nodes()),
                                           static_cast<int>(models_));
      placer_.Learn(*next, nullptr);
      learnt_mix_ = std::move(next);
      return;
    }
    auto next = std::make_unique<LookAhead>(running, waiting, cluster_.nodes(), models_);
    placer_.Learn(next->mix(), &next->fill());
    look_ahead_ = std::move(next);
  }

  // Before the one that comes is among those that are there.
  void LearnIfOld() {
    if (run_.who.demand != Demand::kLearnt || came_ < learn_at_) return;
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
    const double allowed = 0.01 * run_.who.moves_per_100 *
                               (static_cast<double>(came_) - static_cast<double>(order_.first.size())) -
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
    if (run_.who.moves_per_100 > 0) ServeByMoves(node, gone.at);
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

  const ArrivalsOrder& order_;
  size_t models_;
  Cluster cluster_;
  JobMix list_mix_;
  Placer placer_;
  std::unique_ptr<LookAhead> look_ahead_;
  std::unique_ptr<JobMix> learnt_mix_;
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

std::vector<ArrivalsContestant> ContestantsOf(const ArrivalsOptions& options) {
  std::vector<ArrivalsContestant> all;
  for (const int moves : options.moves_per_100)
    for (const Policy policy : options.policies) {
      const bool asks = policy == Policy::kSpillway || policy == Policy::kFgd;
      for (const Demand demand : asks ? options.demands : std::vector<Demand>{Demand::kNone})
        all.push_back({policy, demand, moves});
    }
  return all;
}

}  // namespace

const char* ToString(Demand demand) {
  constexpr const char* kNames[] = {"none", "learnt", "list"};
  return kNames[static_cast<int>(demand)];
}

std::optional<Demand> DemandByName(std::string_view name) {
  for (const Demand demand : {Demand::kNone, Demand::kLearnt, Demand::kList})
    if (name == ToString(demand)) return demand;
  return std::nullopt;
}

ArrivalsRun RunArrivalsOnce(const NodeList& nodes, const JobList& list, const ArrivalsOrder& order,
                            const ArrivalsContestant& who, uint64_t seed) {
  return Run(nodes, list, order, who, seed).Go();
}

size_t CountRuns(const ArrivalsOptions& options) {
  return ContestantsOf(options).size() * static_cast<size_t>(options.seeds);
}

std::vector<ArrivalsRun> RunArrivals(const NodeList& nodes, const JobList& list,
                                     const ArrivalsOptions& options,
                                     const std::function<void(size_t, size_t)>& tell,
                                     const std::function<bool()>& stop) {
  const int64_t milli = MilliOf(nodes);
  std::vector<ArrivalsRun> runs;
  for (uint64_t seed = 1; seed <= static_cast<uint64_t>(options.seeds); ++seed) {
    const ArrivalsOrder order = DrawArrivals(list, milli, options, seed);
    const size_t before = runs.size();
    for (const ArrivalsContestant& who : ContestantsOf(options)) {
      if (stop && stop()) {  // means over seeds that differ are not to be compared
        runs.resize(before);
        return runs;
      }
      runs.push_back(RunArrivalsOnce(nodes, list, order, who, seed));
      if (tell) tell(runs.size(), CountRuns(options));
    }
  }
  return runs;
}

}  // namespace spillway::scheduler

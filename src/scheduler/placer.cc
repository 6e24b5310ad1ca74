// SPDX-License-Identifier: Apache-2.0
#include "scheduler/placer.h"

#include <algorithm>
#include <cmath>

#include "scheduler/peer_scores.h"

namespace spillway::scheduler {
namespace {

constexpr float kNever = -1e30f;
constexpr int kCandidatesTold = 5;

// Our steps: nodes whose scores fall into one step are equal but for the tie-break. Finer steps follow noise
// (the fragmentation that is expected is not the one that comes); coarser ones no longer tell nodes apart.
// Chosen on openb's six lists.
constexpr double kSteps = 60, kStepMilli = 600;
// With a look-ahead: nodes that lose the same in so many parts of a GPU are equal, and the first is taken, so
// that nodes are filled one after another. 20 to 50 do as well; without steps, a sixth of the gain is lost to
// noise.
constexpr double kWorthSteps = 30;
// Where sizes divide a GPU evenly, half of one is worth half of it, idle or not; but a job for all of it fits
// but one of them.
constexpr double kIdleTieBreak = 0.5;  // of a step
// An objective outweighs any score, which is at most 100, or 30 times what all GPUs of a node are worth.
constexpr double kPerGpuSwitchedOn = 1'000, kPerSpeed = 10'000;

// Of nodes in one step the most used one is taken: that with the least share of idle GPUs and, in whole GPUs,
// the least free. The latter fills small nodes first. That is good where any model will do; where many jobs
// ask for certain models (a tenth, in openb's gpuspec10) it uses up those that only small nodes have, so it
// is left out there.
constexpr double kTieBreak = 0.999;  // of a step
constexpr double kMaxChoosy = 0.02;  // share of the jobs
double Untouched(const Node& node, int idle, bool choosy) {
  constexpr double kUsualGpus = 8;
  const double share = static_cast<double>(idle) / node.gpus;
  const int free_gpus = node.FreeMilli() / kWholeGpu;
  return choosy ? share : (share + free_gpus / kUsualGpus) / 2;
}

// (0, 1), growing with the milli of fragmentation that are saved.
double Sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

int SwitchedOn(const Job& job, const Node& node, int gpu) {
  if (!job.Fractional()) return job.gpus;
  return node.jobs[gpu] == 0 ? 1 : 0;
}

template <class Enum, size_t kCount>
std::optional<Enum> ByName(const Enum (&all)[kCount], std::string_view name) {
  for (const Enum one : all)
    if (name == ToString(one)) return one;
  return std::nullopt;
}

}  // namespace

std::optional<Policy> PolicyByName(std::string_view name) { return ByName(kPolicies, name); }

const char* ToString(Policy policy) {
  switch (policy) {
    case Policy::kSpillway:
      return "spillway";
    case Policy::kFgd:
      return "fgd";
    case Policy::kBestFit:
      return "best-fit";
    case Policy::kDotProduct:
      return "dot-product";
    case Policy::kGpuClustering:
      return "gpu-clustering";
    case Policy::kGpuPacking:
      return "gpu-packing";
    case Policy::kFirstFit:
      return "first-fit";
    case Policy::kRandom:
      break;
  }
  return "random";
}

std::optional<Objective> ObjectiveByName(std::string_view name) {
  return ByName({Objective::kFragmentation, Objective::kFewestGpus, Objective::kEarliest}, name);
}

const char* ToString(Objective objective) {
  switch (objective) {
    case Objective::kFragmentation:
      return "fragmentation";
    case Objective::kFewestGpus:
      return "fewest-gpus";
    case Objective::kEarliest:
      break;
  }
  return "earliest";
}

size_t Placer::ShapeHash::operator()(const Job& job) const {
  uint64_t hash = 0;
  for (const int part : {job.cpu_milli, job.memory_mib, job.gpus, job.milli, static_cast<int>(job.models),
                         job.tenant, job.profile ? static_cast<int>(*job.profile) : -1})
    hash = spw_mix64(hash * base::SplitMix64::kStep + static_cast<uint32_t>(part));
  return hash;
}

Placer::Placer(const Cluster& cluster, const JobMix& mix, PlacerOptions options, const FillValue* fill)
    : cluster_(cluster),
      mix_(&mix),
      options_(options),
      fill_(options.policy == Policy::kSpillway ? fill : nullptr),
      before_(cluster.nodes().size(), -1),
      before_seen_(cluster.changes()),
      random_(options.seed * base::SplitMix64::kStep) {}

void Placer::Learn(const JobMix& mix, const FillValue* fill) {
  mix_ = &mix;
  fill_ = options_.policy == Policy::kSpillway ? fill : nullptr;
  std::fill(before_.begin(), before_.end(), -1);
  for (auto& [job, shape] : shapes_) shape->fresh = true;
}

// Jobs are of one shape if every decision about them is the same.
Job Placer::ShapeOfJob(Job job) const {
  job.move_cost = 0;
  if (cluster_.rules().isolation != Isolation::kGpu) job.tenant = 0;
  if (job.gpus == 0) job.models = 0;
  if (job.gpus != 1) job.milli = job.gpus == 0 ? 0 : kWholeGpu;
  return job;
}

// The node's fragmentation as it stands, or what it is worth.
double Placer::Before(int n) {
  if (cluster_.changes() - before_seen_ > Cluster::kChangesKept) {
    std::fill(before_.begin(), before_.end(), -1);
    before_seen_ = cluster_.changes();
  }
  for (; before_seen_ < cluster_.changes(); ++before_seen_) before_[cluster_.ChangedNode(before_seen_)] = -1;
  if (before_[n] < 0) {
    const Node& node = cluster_.nodes()[n];
    before_[n] = fill_ != nullptr ? fill_->Of(node.model, node.free_cpu, node.free.data(), node.gpus)
                                  : Fragmentation(node);
  }
  return before_[n];
}

double Placer::Fragmentation(const Node& node) const {
  return mix_->Fragmentation(node.model, node.free_cpu, node.free.data(), node.gpus);
}

// The node's free milli once the job has taken that GPU, or the first idle ones.
std::array<int16_t, kMaxGpus> Placer::FreeAfter(const Job& job, const Node& node, int gpu) const {
  auto free = node.free;
  if (job.Fractional()) {
    free[gpu] = static_cast<int16_t>(free[gpu] - cluster_.ShareOn(job, node));
  } else {
    for (int g = 0, wanted = job.gpus; wanted > 0; ++g)
      if (node.jobs[g] == 0) free[g] = 0, --wanted;
  }
  return free;
}

// Milli that become useless if the job takes that GPU.
double Placer::Lost(const Job& job, const Node& node, int gpu, double before) const {
  const auto free = FreeAfter(job, node, gpu);
  return mix_->Fragmentation(node.model, node.free_cpu - job.cpu_milli, free.data(), node.gpus) - before;
}

double Placer::WorthAfter(const Job& job, const Node& node, int gpu) const {
  const auto free = FreeAfter(job, node, gpu);
  return fill_->Of(node.model, node.free_cpu - job.cpu_milli, free.data(), node.gpus);
}

Placer::Rated Placer::Rate(const Job& job, int n) {
  const Node& node = cluster_.nodes()[n];
  if (!cluster_.FitsHost(job, node)) return {kNever, -1};
  const int idle = node.IdleGpus();
  if (!job.Fractional() && idle < job.gpus) return {kNever, -1};

  const bool by_state = options_.policy == Policy::kSpillway || options_.policy == Policy::kFgd;
  const double before = by_state ? Before(n) : 0;
  const auto score = [&](int gpu) -> double {
    switch (options_.policy) {
      case Policy::kFgd:
        return std::floor(100 * Sigmoid(-Lost(job, node, gpu, before) / 1000));
      case Policy::kSpillway:
        if (fill_ != nullptr)
          return -std::round(kWorthSteps * (before - WorthAfter(job, node, gpu))) -
                 (job.Fractional() && node.jobs[gpu] == 0 ? kIdleTieBreak : 0);
        return std::floor(kSteps * Sigmoid(-Lost(job, node, gpu, before) / kStepMilli));
      case Policy::kFirstFit:
      case Policy::kRandom:
        return 0;
      default:
        return job.Fractional() ? -node.free[gpu] : 0;
    }
  };
  Rated best{kNever, -1};
  const auto weigh = [&](int gpu) {
    double value = score(gpu);
    if (options_.objective == Objective::kFewestGpus) value -= kPerGpuSwitchedOn * SwitchedOn(job, node, gpu);
    if (best.gpu >= 0 && value <= best.score) return;
    best = {static_cast<float>(value), static_cast<int8_t>(gpu)};
  };
  if (!job.Fractional()) {
    weigh(0);
  } else {
    for (int gpu = 0; gpu < node.gpus; ++gpu) {
      if (!cluster_.FitsGpu(job, n, gpu)) continue;
      bool same = false;  // as one before
      for (int g = 0; g < gpu && !same; ++g)
        same = node.free[g] == node.free[gpu] && node.jobs[g] == node.jobs[gpu] &&
               node.slices[g] == node.slices[gpu] && node.tenant[g] == node.tenant[gpu];
      if (!same) weigh(gpu);
    }
    if (best.gpu < 0) return best;
  }
  double value = best.score;
  switch (options_.policy) {
    case Policy::kBestFit:
      value = BestFitScore(job, node);
      break;
    case Policy::kDotProduct:
      value = DotProductScore(job, node);
      break;
    case Policy::kGpuClustering:
      value = GpuClusteringScore(job, node);
      break;
    case Policy::kGpuPacking:
      value = GpuPackingScore(job, node);
      break;
    default:
      break;
  }
  if (options_.policy == Policy::kSpillway && node.gpus > 0 && fill_ == nullptr)
    value -= kTieBreak * Untouched(node, idle, mix_->choosy() > kMaxChoosy);
  if (options_.objective == Objective::kEarliest && job.gpus > 0)
    value += kPerSpeed * cluster_.models()[node.model].speed;
  return {static_cast<float>(value), best.gpu};
}

Placer::Shape& Placer::ShapeFor(const Job& job) {
  auto& entry = shapes_[job];
  if (entry == nullptr) {
    entry = std::make_unique<Shape>();
    const size_t nodes = cluster_.nodes().size();
    entry->score.assign(nodes, kNever);
    entry->gpu.assign(nodes, -1);
    entry->block_best.assign((nodes + kBlock - 1) / kBlock, -1);
  }
  Shape& shape = *entry;
  shape.used = ++decisions_;
  if (shapes_.size() > kMaxShapes)
    shapes_.erase(std::min_element(shapes_.begin(), shapes_.end(), [](const auto& a, const auto& b) {
      return a.second->used < b.second->used;
    }));
  return shape;
}

void Placer::BestOfBlock(Shape& shape, int block) const {
  const int end = std::min<int>((block + 1) * kBlock, static_cast<int>(shape.score.size()));
  int best = -1;
  for (int n = block * kBlock; n < end; ++n)
    if (shape.gpu[n] >= 0 && (best < 0 || shape.score[n] > shape.score[best])) best = n;
  shape.block_best[block] = best;
}

void Placer::Refresh(Shape& shape, const Job& job) {
  const auto rate = [&](int n) {
    const Rated rated = Rate(job, n);
    shape.score[n] = rated.score;
    shape.gpu[n] = rated.gpu;
  };
  const uint64_t missed = cluster_.changes() - shape.seen;
  if (shape.fresh || missed > std::min<uint64_t>(Cluster::kChangesKept, shape.score.size())) {
    for (size_t n = 0; n < shape.score.size(); ++n) rate(static_cast<int>(n));
    for (size_t block = 0; block < shape.block_best.size(); ++block)
      BestOfBlock(shape, static_cast<int>(block));
  } else {
    for (; shape.seen < cluster_.changes(); ++shape.seen) {
      const int n = cluster_.ChangedNode(shape.seen);
      rate(n);
      BestOfBlock(shape, n / kBlock);
    }
  }
  shape.seen = cluster_.changes();
  shape.fresh = false;
}

std::optional<Spot> Placer::Best(const Shape& shape) const {
  int best = -1;
  for (const int n : shape.block_best)
    if (n >= 0 && (best < 0 || shape.score[n] > shape.score[best])) best = n;
  if (best < 0) return std::nullopt;
  return Spot{best, shape.gpu[best], -1};
}

std::optional<Spot> Placer::AnyOf(const Shape& shape, const Job& job) {
  const auto draw = [this](size_t below) { return static_cast<size_t>(random_.Below(below)); };
  std::vector<int> nodes, gpus;
  for (size_t n = 0; n < shape.gpu.size(); ++n)
    if (shape.gpu[n] >= 0) nodes.push_back(static_cast<int>(n));
  if (nodes.empty()) return std::nullopt;
  const int node = nodes[draw(nodes.size())];
  if (!job.Fractional()) return Spot{node, 0, -1};
  for (int gpu = 0; gpu < cluster_.nodes()[node].gpus; ++gpu)
    if (cluster_.FitsGpu(job, node, gpu)) gpus.push_back(gpu);
  return Spot{node, gpus[draw(gpus.size())], -1};
}

std::optional<Spot> Placer::Decide(const Job& asked) {
  const Job job = ShapeOfJob(asked);
  Shape& shape = ShapeFor(job);
  Refresh(shape, job);
  return options_.policy == Policy::kRandom ? AnyOf(shape, job) : Best(shape);
}

std::optional<Placer::Rating> Placer::RateOn(const Job& asked, int node) {
  const Rated rated = Rate(ShapeOfJob(asked), node);
  if (rated.gpu < 0) return std::nullopt;
  return Rating{rated.score, {node, rated.gpu, -1}};
}

Explanation Placer::Explain(const Job& asked) {
  const Job job = ShapeOfJob(asked);
  Shape& shape = ShapeFor(job);
  Refresh(shape, job);
  Explanation why;
  why.how = options_;
  why.looks_ahead = fill_ != nullptr;
  why.chosen = options_.policy == Policy::kRandom ? AnyOf(shape, job) : Best(shape);
  why.nodes = static_cast<int>(cluster_.nodes().size());
  std::vector<int> order;
  for (int n = 0; n < why.nodes; ++n) {
    const Node& node = cluster_.nodes()[n];
    if (shape.gpu[n] >= 0) {
      ++why.fitting;
      order.push_back(n);
      continue;
    }
    Job anyone = job;  // of the tenant that is there
    bool tenant = false;
    for (int gpu = 0; gpu < node.gpus && job.Fractional() && cluster_.FitsHost(job, node); ++gpu) {
      anyone.tenant = node.tenant[gpu];
      tenant |= cluster_.FitsGpu(anyone, n, gpu);
    }
    ++(job.gpus > 0 && !job.Accepts(node.model) ? why.refused.model
       : node.free_cpu < job.cpu_milli          ? why.refused.cpu
       : node.free_memory < job.memory_mib      ? why.refused.memory
       : tenant                                 ? why.refused.tenant
                                                : why.refused.gpu);
  }
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
    const bool a_chosen = why.chosen && why.chosen->node == a, b_chosen = why.chosen && why.chosen->node == b;
    return a_chosen != b_chosen ? a_chosen : shape.score[a] > shape.score[b];
  });
  if (order.size() > kCandidatesTold) order.resize(kCandidatesTold);
  if (why.chosen && job.Fractional()) {
    const int n = why.chosen->node;
    const Node& node = cluster_.nodes()[n];
    const bool slices =
        cluster_.rules().isolation == Isolation::kFraction && cluster_.models()[node.model].mig;
    for (int gpu = 0; gpu < node.gpus; ++gpu) {
      Explanation::GpuChoice one{gpu, node.free[gpu], -1, cluster_.FitsGpu(job, n, gpu), node.jobs[gpu] != 0,
                                 0};
      if (one.fits) one.fragmentation = Lost(job, node, gpu, Fragmentation(node));
      if (one.fits && slices)
        one.start = BestStart(SliceOf(job, cluster_.rules().slice_rule), node.slices[gpu]);
      why.gpus.push_back(one);
    }
  }
  for (const int n : order) {
    const Node& node = cluster_.nodes()[n];
    const Spot spot = why.chosen && why.chosen->node == n ? *why.chosen : Spot{n, shape.gpu[n], -1};
    why.best.push_back({spot, Lost(job, node, spot.gpu, Fragmentation(node)), SwitchedOn(job, node, spot.gpu),
                        cluster_.models()[node.model].speed, shape.score[n]});
  }
  return why;
}

}  // namespace spillway::scheduler

// SPDX-License-Identifier: Apache-2.0
#include "scheduler/replay/placement_bound.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>
#include <tuple>

#include "scheduler/pattern_prices.h"

namespace spillway::scheduler {
namespace {

// Prices are found roughly, from far away, and then polished. More polishing lowers the bound by little: on
// openb's cpu050 ten times as much by 0.06 points.
constexpr int kRoughRounds = 600, kPolishRounds = 1200, kPolishRoundsFromGoodPrices = 200;
constexpr double kFirstStep = 0.1;      // of the logarithm of a price
constexpr double kFirstHope = 0.005;    // by so much of the cluster the bound might be lowered
constexpr double kSameDirection = 0.8;  // of the last step's direction is kept: less zigzag at kinks
constexpr int kPatience = 60;  // rounds that lower the bound by less than a tenth of what is hoped for
constexpr double kLowestPrice = 1e-6;  // GPUs
constexpr size_t kMoments = 1000;      // into which the arrivals are divided, at most
// Shapes, those with most GPUs, of which copies stand under one another. With 60 the descent takes four times
// as long and ends higher.
constexpr size_t kCopied = 24;
// The tables hold single-precision numbers: relative to the bound, their errors are far below this.
constexpr double kMargin = 1e-5;

using Shape = std::tuple<int, int, int, int, ModelSet>;  // gpus, milli, CPU, host memory, models

Shape ShapeOf(const Job& job) {
  return {job.gpus,
          job.gpus == 0   ? 0
          : job.gpus == 1 ? job.milli
                          : kWholeGpu,
          job.cpu_milli, job.memory_mib, job.gpus == 0 ? 0 : job.models};
}

double GpusOf(const JobKind& kind) { return kind.gpus == 1 ? 1.0 * kind.milli / kWholeGpu : kind.gpus; }

// One that asks for neither GPU nor CPU is allocated nothing, and no set that is worth its price is the
// dearest, as another of it always fits: at a price above 0 it would lower the bound below what is reached.
bool Matters(const Job& job) { return job.gpus > 0 || job.cpu_milli > 0; }

bool SameKinds(const std::vector<JobKind>& a, const std::vector<JobKind>& b) {
  const auto same = [](const JobKind& x, const JobKind& y) {
    return std::tie(x.cpu_milli, x.gpus, x.milli, x.models) ==
           std::tie(y.cpu_milli, y.gpus, y.milli, y.models);
  };
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), same);
}

// Wherever `large` fits, `small` does.
bool Covers(const Shape& large, const Shape& small) {
  const auto& [gpus, milli, cpu, memory, models] = large;
  const auto& [gpus2, milli2, cpu2, memory2, models2] = small;
  const bool accepts = models2 == 0 || (models != 0 && (models & ~models2) == 0);
  return gpus2 <= gpus && milli2 <= milli && cpu2 <= cpu && memory2 <= memory && accepts;
}

// The jobs that come, by shape and kind, and which shape surely stops fitting first.
struct Arrivals {
  explicit Arrivals(const std::vector<Job>& order) {
    std::map<Shape, size_t> shape_of;
    std::map<Shape, size_t> kind_of;
    const size_t block = std::max<size_t>(1, (order.size() + kMoments - 1) / kMoments);
    moments = (order.size() + block - 1) / block;
    for (const Job& job : order)
      if (Matters(job)) shape_of.emplace(ShapeOf(job), 0);
    // Small shapes come before those that cover them: the order of the map is the lexicographic one.
    for (auto& [shape, index] : shape_of) {
      index = shapes.size();
      shapes.push_back(shape);
      auto [gpus, milli, cpu, memory, models] = shape;
      const auto [at, fresh] = kind_of.try_emplace(Shape{gpus, milli, cpu, 0, models}, kinds.size());
      if (fresh) kinds.push_back({cpu, gpus, milli, models, 0});
      kind.push_back(at->second);
    }
    came.assign(shapes.size(), std::vector<float>(moments + 1, 0));
    for (size_t i = 0; i < order.size(); ++i)
      if (Matters(order[i])) came[shape_of[ShapeOf(order[i])]][i / block + 1] += 1;
    for (auto& counts : came) std::partial_sum(counts.begin(), counts.end(), counts.begin());
    for (size_t s = 0; s < shapes.size(); ++s) kinds[kind[s]].share += came[s].back();
    // Of the shapes that cover it the one under the longest chain, in GPUs that its members ask for: the more
    // stands above a shape, the more must have stopped fitting before it may.
    larger.assign(shapes.size(), -1);
    std::vector<double> above(shapes.size(), 0);
    for (size_t s = shapes.size(); s-- > 0;) {
      double most = -1;
      for (size_t l = s + 1; l < shapes.size(); ++l)
        if (above[l] > most && Covers(shapes[l], shapes[s])) most = above[l], larger[s] = static_cast<int>(l);
      above[s] = std::max(most, 0.0) + GpusOfAll(s);
    }
    Copy(above);
  }

  [[nodiscard]] double GpusOfAll(size_t s) const { return came[s].back() * GpusOf(kinds[kind[s]]); }

  // A tree holds but one of the shapes that stop fitting no later. So what is won by a shape is divided:
  // parts of it stand, as leaves, under others that cover it, as large as what these ask for. All parts would
  // in truth stop at one time; that each may choose its own only raises the bound.
  void Copy(const std::vector<double>& above) {
    part.assign(shapes.size(), 1);
    copies.resize(shapes.size());
    std::vector<size_t> largest(shapes.size());
    std::iota(largest.begin(), largest.end(), 0);
    std::stable_sort(largest.begin(), largest.end(),
                     [&](size_t a, size_t b) { return GpusOfAll(a) > GpusOfAll(b); });
    if (largest.size() > kCopied) largest.resize(kCopied);
    for (const size_t s : largest) {
      if (larger[s] < 0) continue;
      std::set<size_t> chain;  // above it in the tree
      for (int l = larger[s]; l >= 0; l = larger[l]) chain.insert(l);
      double all = above[larger[s]];
      std::vector<size_t> covers;
      for (const size_t l : largest)
        if (l != s && !chain.contains(l) && Covers(shapes[l], shapes[s]))
          covers.push_back(l), all += GpusOfAll(l);
      if (all <= 0) continue;
      part[s] = above[larger[s]] / all;
      for (const size_t l : covers) copies[l].push_back({s, GpusOfAll(l) / all});
    }
  }

  struct Part {
    size_t shape;
    double part;
  };
  std::vector<Shape> shapes;
  std::vector<size_t> kind;               // of a shape
  std::vector<int> larger;                // shape that stops fitting no later; -1: none is known
  std::vector<double> part;               // of a shape, that stands in the tree itself
  std::vector<std::vector<Part>> copies;  // leaves under each shape
  std::vector<JobKind> kinds;             // share: how many came
  std::vector<std::vector<float>> came;   // [shape][moment]: before it
  size_t moments = 0;
};

// The most that jobs can be worth beyond their prices; adds to `placed` how many of each kind that takes.
double ChooseAny(const Arrivals& arrivals, const std::vector<double>& prices, std::vector<double>& placed) {
  double sum = 0;
  for (size_t k = 0; k < prices.size(); ++k) {
    const double gain = GpusOf(arrivals.kinds[k]) - prices[k];
    if (gain > 0) sum += gain * arrivals.kinds[k].share, placed[k] += arrivals.kinds[k].share;
  }
  return sum;
}

// best[m]: from what is won by stopping at m to the most that is won by stopping at m or later. Returns when.
std::vector<uint16_t> BestFrom(std::vector<double>& best) {
  std::vector<uint16_t> stop(best.size());
  for (size_t m = best.size(); m-- > 0;) {
    const bool later = m + 1 < best.size() && best[m + 1] > best[m];
    stop[m] = later ? stop[m + 1] : static_cast<uint16_t>(m);
    if (later) best[m] = best[m + 1];
  }
  return stop;
}

// The same where each shape is placed up to a moment that is no earlier than that of the larger one. Trees
// are solved from the leaves: best[s][m] is the most of shape s and all below it if s stops at m or later.
// Within a moment jobs are counted or not as is better, so the moments' length only raises the result.
double ChooseWilling(const Arrivals& arrivals, const std::vector<double>& prices,
                     std::vector<double>& placed) {
  const size_t moments = arrivals.moments, shapes = arrivals.shapes.size();
  std::vector<std::vector<double>> best(shapes, std::vector<double>(moments, 0));
  std::vector<std::vector<uint16_t>> stops(shapes);
  std::vector<std::vector<std::vector<uint16_t>>> copy_stops(shapes);
  const auto gain = [&](size_t s) {
    return GpusOf(arrivals.kinds[arrivals.kind[s]]) - prices[arrivals.kind[s]];
  };
  const auto count = [&](size_t s, size_t m) { return arrivals.came[s][gain(s) > 0 ? m + 1 : m]; };
  double sum = 0;
  std::vector<double> copy(moments);
  for (size_t s = 0; s < shapes; ++s) {  // children have smaller indices
    std::vector<double>& mine = best[s];
    for (size_t m = 0; m < moments; ++m) mine[m] += arrivals.part[s] * gain(s) * count(s, m);
    for (const auto& [shape, part] : arrivals.copies[s]) {
      for (size_t m = 0; m < moments; ++m) copy[m] = part * gain(shape) * count(shape, m);
      copy_stops[s].push_back(BestFrom(copy));
      for (size_t m = 0; m < moments; ++m) mine[m] += copy[m];
    }
    stops[s] = BestFrom(mine);
    if (arrivals.larger[s] < 0) {
      sum += mine[0];
    } else {
      std::vector<double>& above = best[arrivals.larger[s]];
      for (size_t m = 0; m < moments; ++m) above[m] += mine[m];
    }
  }
  std::vector<uint16_t> stop(shapes);
  for (size_t s = shapes; s-- > 0;) {
    stop[s] = stops[s][arrivals.larger[s] < 0 ? 0 : stop[arrivals.larger[s]]];
    placed[arrivals.kind[s]] += arrivals.part[s] * count(s, stop[s]);
    for (size_t i = 0; i < copy_stops[s].size(); ++i) {
      const auto& [shape, part] = arrivals.copies[s][i];
      placed[arrivals.kind[shape]] += part * count(shape, copy_stops[s][i][stop[s]]);
    }
  }
  return sum;
}

// The bound as a function of the prices: convex, with kinks wherever two sets of jobs are worth the same.
class BoundByPrices {
 public:
  BoundByPrices(const std::vector<Node>& nodes, size_t models, const std::vector<Job>& order, bool willing)
      : arrivals_(order), classes_(ClassesOf(nodes)), willing_(willing) {
    for (const NodeClass& one : classes_) {
      gpus_ += 1.0 * one.gpus * one.count;
      cpu_ += 1.0 * one.cpu_milli * one.count;
    }
    least_ = gpus_;  // no packing is above all of it
    int step = kWholeGpu;
    for (const JobKind& kind : arrivals_.kinds)
      if (kind.gpus == 1) step = std::gcd(step, kind.milli);
    pricing_.emplace(arrivals_.kinds, classes_, models, step);
    packed_.resize(kinds().size());
    placed_.resize(kinds().size());
  }

  // In GPUs.
  double At(const std::vector<double>& prices) {
    pricing_->SetPrices(prices, true);
    std::fill(packed_.begin(), packed_.end(), 0);
    std::fill(placed_.begin(), placed_.end(), 0);
    double bound =
        willing_ ? ChooseWilling(arrivals_, prices, placed_) : ChooseAny(arrivals_, prices, placed_);
    for (const NodeClass& one : classes_) bound += pricing_->AddDearestSets(one, packed_);
    bound *= 1 + kMargin;
    least_ = std::min(least_, bound);
    return bound;
  }
  // At the last prices, of a kind: how many more would be placed than fit. Dearer ones lower the bound where
  // that is positive.
  [[nodiscard]] double Excess(size_t kind) const { return placed_[kind] - packed_[kind]; }

  [[nodiscard]] std::vector<double> FirstPrices() const {
    std::vector<double> prices;
    for (const JobKind& kind : kinds())
      prices.push_back(std::max(GpusOf(kind), 0.01 * kind.cpu_milli * gpus_ / std::max(cpu_, 1.0)));
    return prices;
  }
  [[nodiscard]] const std::vector<JobKind>& kinds() const { return arrivals_.kinds; }  // share: how many came
  [[nodiscard]] double gpus() const { return gpus_; }
  [[nodiscard]] double least() const { return least_; }  // of all that was asked

 private:
  Arrivals arrivals_;
  std::vector<NodeClass> classes_;
  bool willing_;
  double gpus_ = 0, cpu_ = 0, least_ = 0;
  std::optional<FinePatternPrices> pricing_;
  std::vector<double> packed_, placed_;  // of each kind
};

// Multiplicative weights, the step of each kind divided by how much it has swung; the mean of the later
// rounds. Comes near from anywhere, and then slowly nearer. False: stopped.
bool FindRoughly(BoundByPrices& bound, std::vector<double>& prices, const std::function<bool()>& stop) {
  const size_t kinds = prices.size();
  std::vector<double> swings(kinds, 1), sum(kinds, 0);
  for (int round = 0; round < kRoughRounds; ++round) {
    if (stop && stop()) return false;
    bound.At(prices);
    for (size_t k = 0; k < kinds; ++k) {
      if (round >= kRoughRounds / 2) sum[k] += prices[k];
      const double swing = bound.Excess(k) / bound.kinds()[k].share;
      swings[k] += swing * swing;
      prices[k] = std::max(prices[k] * std::exp(kFirstStep * swing / std::sqrt(swings[k])), kLowestPrice);
    }
  }
  constexpr int kSummed = kRoughRounds - kRoughRounds / 2;
  for (size_t k = 0; k < kinds; ++k) prices[k] = sum[k] / kSummed;
  return true;
}

// Subgradient steps as long as would be right if the bound were straight and could be lowered by so much as
// is hoped for (Polyak 1969), which is halved whenever that seems too much. From prices that are nearly right
// this is far quicker than weights are. False: stopped.
bool Polish(BoundByPrices& bound, std::vector<double>& prices, int rounds,
            const std::function<bool()>& stop) {
  const size_t kinds = prices.size();
  std::vector<double> trial = prices, direction(kinds, 0);
  double least = bound.At(prices), hope = kFirstHope * bound.gpus();
  int patience = kPatience;
  for (int round = 1; round < rounds; ++round) {
    if (stop && stop()) return false;
    const double here = bound.At(trial);
    patience = here < least - 0.1 * hope ? kPatience : patience - 1;
    if (here < least) least = here, prices = trial;
    if (patience <= 0) {
      hope /= 2;
      patience = kPatience;
      trial = prices;
      std::fill(direction.begin(), direction.end(), 0);
      continue;
    }
    double steepness = 0;
    for (size_t k = 0; k < kinds; ++k) {
      const double excess = trial[k] <= kLowestPrice ? std::max(bound.Excess(k), 0.0) : bound.Excess(k);
      direction[k] = kSameDirection * direction[k] + (1 - kSameDirection) * excess;
      steepness += direction[k] * direction[k] / bound.kinds()[k].share;
    }
    if (steepness <= 0) return true;  // the least
    const double length = (here - least + hope) / steepness;
    for (size_t k = 0; k < kinds; ++k)
      trial[k] = std::max(trial[k] + length * direction[k] / bound.kinds()[k].share, kLowestPrice);
  }
  return true;
}

}  // namespace

size_t ShapesIn(const std::vector<Job>& order) {
  std::set<Shape> shapes;
  for (const Job& job : order) shapes.insert(ShapeOf(job));
  return shapes.size();
}

std::optional<double> BoundFinder::Descend(const std::vector<Job>& order, bool willing, Prices& prices,
                                           const std::function<bool()>& stop) const {
  BoundByPrices bound(nodes_, models_, order, willing);
  if (bound.gpus() <= 0) return 100;
  const bool fresh = !SameKinds(prices.kinds, bound.kinds());
  if (fresh) {
    prices = {bound.kinds(), bound.FirstPrices()};
    if (!FindRoughly(bound, prices.of, stop)) return std::nullopt;
  }
  if (!Polish(bound, prices.of, fresh ? kPolishRounds : kPolishRoundsFromGoodPrices, stop))
    return std::nullopt;
  return 100 * bound.least() / bound.gpus();
}

std::optional<PlacementBound> BoundFinder::Find(const std::vector<Job>& order,
                                                const std::function<bool()>& stop) {
  if (ShapesIn(order) > kMaxBoundShapes) return std::nullopt;
  const auto any = Descend(order, false, any_prices_, stop);
  const auto willing = any ? Descend(order, true, willing_prices_, stop) : std::nullopt;
  if (!willing) return std::nullopt;
  return PlacementBound{*any, std::min(*any, *willing)};
}

}  // namespace spillway::scheduler

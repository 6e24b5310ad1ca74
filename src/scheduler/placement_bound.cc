// SPDX-License-Identifier: Apache-2.0
#include "scheduler/placement_bound.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <tuple>

#include "scheduler/pattern_prices.h"

namespace spillway::scheduler {
namespace {

constexpr int kRounds = 600, kRoundsFromGoodPrices = 80;
constexpr double kFirstStep = 0.1;
constexpr double kLowestPrice = 1e-6;  // GPUs
constexpr size_t kMoments = 1000;      // into which the arrivals are divided, at most
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
    for (const Job& job : order) shape_of.emplace(ShapeOf(job), 0);
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
    for (size_t i = 0; i < order.size(); ++i) came[shape_of[ShapeOf(order[i])]][i / block + 1] += 1;
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
      above[s] = std::max(most, 0.0) + came[s].back() * GpusOf(kinds[kind[s]]);
    }
  }

  std::vector<Shape> shapes;
  std::vector<size_t> kind;              // of a shape
  std::vector<int> larger;               // shape that stops fitting no later; -1: none is known
  std::vector<JobKind> kinds;            // share: how many came
  std::vector<std::vector<float>> came;  // [shape][moment]: before it
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

// The same where each shape is placed up to a moment that is no earlier than that of the larger one. Trees
// are solved from the leaves: best[s][m] is the most of shape s and all below it if s stops at m or later.
// Within a moment jobs are counted or not as is better, so the moments' length only raises the result.
double ChooseWilling(const Arrivals& arrivals, const std::vector<double>& prices,
                     std::vector<double>& placed) {
  const size_t moments = arrivals.moments, shapes = arrivals.shapes.size();
  std::vector<std::vector<double>> best(shapes, std::vector<double>(moments, 0));
  std::vector<std::vector<uint16_t>> stops(shapes, std::vector<uint16_t>(moments));
  const auto gain = [&](size_t s) {
    return GpusOf(arrivals.kinds[arrivals.kind[s]]) - prices[arrivals.kind[s]];
  };
  const auto count = [&](size_t s, size_t m) { return arrivals.came[s][gain(s) > 0 ? m + 1 : m]; };
  double sum = 0;
  for (size_t s = 0; s < shapes; ++s) {  // children have smaller indices
    std::vector<double>& mine = best[s];
    for (size_t m = 0; m < moments; ++m) mine[m] += gain(s) * count(s, m);
    for (size_t m = moments; m-- > 0;) {
      const bool later = m + 1 < moments && mine[m + 1] > mine[m];
      stops[s][m] = later ? stops[s][m + 1] : static_cast<uint16_t>(m);
      if (later) mine[m] = mine[m + 1];
    }
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
    placed[arrivals.kind[s]] += count(s, stop[s]);
  }
  return sum;
}

}  // namespace

double BoundFinder::Descend(const std::vector<Job>& order, bool willing, std::vector<double>& prices) const {
  const Arrivals arrivals(order);
  const std::vector<NodeClass> classes = ClassesOf(nodes_);
  int step = kWholeGpu;
  double gpus = 0, cpu = 0;
  for (const JobKind& kind : arrivals.kinds)
    if (kind.gpus == 1) step = std::gcd(step, kind.milli);
  for (const NodeClass& one : classes) {
    gpus += 1.0 * one.gpus * one.count;
    cpu += 1.0 * one.cpu_milli * one.count;
  }
  if (gpus <= 0) return 100;
  FinePatternPrices pricing(arrivals.kinds, classes, models_, step);
  const size_t kinds = arrivals.kinds.size();
  const bool fresh = prices.size() != kinds;
  if (fresh) {
    prices.clear();
    for (const JobKind& kind : arrivals.kinds)
      prices.push_back(std::max(GpusOf(kind), 0.01 * kind.cpu_milli * gpus / std::max(cpu, 1.0)));
  }
  double least = gpus;  // no packing is above all of it
  std::vector<double> trial = prices, swings(kinds, 1), packed(kinds), placed(kinds), mean(kinds, 0);
  const int rounds = fresh ? kRounds : kRoundsFromGoodPrices;
  for (int round = 1; round <= rounds; ++round) {
    if (round == rounds)
      for (size_t k = 0; k < kinds; ++k) trial[k] = mean[k] / (rounds - 1 - rounds / 2);
    pricing.SetPrices(trial, true);
    std::fill(packed.begin(), packed.end(), 0);
    std::fill(placed.begin(), placed.end(), 0);
    double bound = willing ? ChooseWilling(arrivals, trial, placed) : ChooseAny(arrivals, trial, placed);
    for (const NodeClass& one : classes) bound += pricing.AddDearestSets(one, packed);
    bound *= 1 + kMargin;
    if (bound < least) least = bound, prices = trial;
    for (size_t k = 0; k < kinds; ++k) {
      if (round > rounds / 2) mean[k] += trial[k];
      const double swing = (packed[k] - placed[k]) / arrivals.kinds[k].share;
      swings[k] += swing * swing;
      trial[k] = std::max(trial[k] * std::exp(-kFirstStep * swing / std::sqrt(swings[k])), kLowestPrice);
    }
  }
  return 100 * least / gpus;
}

PlacementBound BoundFinder::Find(const std::vector<Job>& order) {
  PlacementBound bound;
  bound.any_pct = Descend(order, false, any_prices_);
  bound.willing_pct = std::min(bound.any_pct, Descend(order, true, willing_prices_));
  return bound;
}

}  // namespace spillway::scheduler

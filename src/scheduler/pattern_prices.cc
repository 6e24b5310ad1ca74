// SPDX-License-Identifier: Apache-2.0
#include "scheduler/pattern_prices.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

namespace spillway::scheduler {
namespace {

// Prices of CPU that are tried: 0, then even ratios from the lowest to the highest, as multiples of what a
// GPU's usual share of the cluster's CPU would cost if it were worth a GPU. The highest is where jobs that
// take a whole GPU and a seventeenth of that share pay for CPU alone.
constexpr double kHighest = 17;
constexpr double LowestOf(int cpu_prices) { return cpu_prices > 16 ? 0.02 : 0.2; }

bool Welcome(const JobKind& kind, int model) { return kind.models == 0 || (kind.models >> model & 1) != 0; }

}  // namespace

std::vector<NodeClass> ClassesOf(const std::vector<Node>& nodes) {
  std::map<std::tuple<int, int, int>, int> counts;
  for (const Node& node : nodes) ++counts[{node.model, node.cpu_milli, node.gpus}];
  std::vector<NodeClass> classes;
  for (const auto& [key, count] : counts)
    classes.push_back({std::get<0>(key), std::get<1>(key), std::get<2>(key), count});
  return classes;
}

template <int kCpuPrices>
PatternPricesOf<kCpuPrices>::PatternPricesOf(std::vector<JobKind> kinds,
                                             const std::vector<NodeClass>& classes, size_t models, int step)
    : kinds_(std::move(kinds)), step_(step), steps_(kWholeGpu / step) {
  double cpu = 0, gpus = 0;
  for (const NodeClass& nodes : classes) {
    if (nodes.cpu_milli >= kUnlimited / 2) continue;
    cpu += 1.0 * nodes.cpu_milli * nodes.count;
    gpus += 1.0 * nodes.gpus * nodes.count;
  }
  const double lowest = LowestOf(kCpuPrices), usual = std::max(gpus, 1.0) / std::max(cpu, 1.0);
  for (int c = 1; c < kCpuPrices; ++c)
    cpu_price_[c] =
        static_cast<float>(lowest * usual * std::pow(kHighest / lowest, (c - 1.0) / (kCpuPrices - 2)));
  std::map<std::vector<bool>, uint16_t> seen;
  for (size_t model = 0; model < models; ++model) {
    std::vector<bool> welcome;
    for (const JobKind& kind : kinds_) welcome.push_back(Welcome(kind, static_cast<int>(model)));
    table_of_.push_back(seen.try_emplace(welcome, static_cast<uint16_t>(seen.size())).first->second);
  }
  tables_.resize(seen.size());
  for (Table& table : tables_) {
    table.part.resize(static_cast<size_t>(steps_) + 1);
    table.part_kind.resize(static_cast<size_t>(steps_) + 1);
    table.idle_kind.resize(kMaxGpus + 1);
  }
}

template <int kCpuPrices>
void PatternPricesOf<kCpuPrices>::SetPrices(const std::vector<double>& prices, bool with_sets) {
  prices_ = prices;
  double cpu_only = 0;
  cpu_kind_ = -1;
  for (size_t k = 0; k < kinds_.size(); ++k) {
    const JobKind& kind = kinds_[k];
    if (kind.gpus > 0 || kind.cpu_milli <= 0 || prices_[k] / kind.cpu_milli <= cpu_only) continue;
    cpu_only = prices_[k] / kind.cpu_milli;
    cpu_kind_ = static_cast<int>(k);
  }
  for (int c = 0; c < kCpuPrices; ++c) cpu_worth_[c] = std::max(cpu_price_[c], static_cast<float>(cpu_only));
  for (size_t model = 0, next = 0; model < table_of_.size(); ++model)
    if (table_of_[model] == next) Fill(static_cast<int>(model), tables_[next++], with_sets);
}

template <int kCpuPrices>
void PatternPricesOf<kCpuPrices>::Fill(int model, Table& table, bool with_sets) const {
  struct Item {
    int steps = 0, kind = -1;
    float price = 0;
  };
  std::vector<Item> by_size(static_cast<size_t>(steps_) + 1), items;
  for (int c = 0; c < kCpuPrices; ++c) {
    // Of kinds of one size only the dearest counts.
    std::fill(by_size.begin(), by_size.end(), Item{});
    std::array<Item, kMaxGpus + 1> whole = {};
    for (size_t k = 0; k < kinds_.size(); ++k) {
      const JobKind& kind = kinds_[k];
      if (kind.gpus == 0 || !Welcome(kind, model)) continue;
      const auto price = static_cast<float>(prices_[k] - cpu_price_[c] * kind.cpu_milli);
      const int steps = StepsOf(kind);
      Item& item = kind.gpus == 1 ? by_size[steps] : whole[std::min(kind.gpus, kMaxGpus)];
      if (price > item.price) item = {steps, static_cast<int>(k), price};
    }
    items.clear();
    for (const Item& item : by_size)
      if (item.kind >= 0) items.push_back(item);
    for (int f = 0; f <= steps_; ++f) {
      float best = f == 0 ? 0 : table.part[f - 1][c];
      int taken = -1;
      for (const Item& item : items) {
        if (item.steps > f) break;
        const float value = table.part[f - item.steps][c] + item.price;
        if (value > best) best = value, taken = item.kind;
      }
      table.part[f][c] = best;
      if (with_sets) table.part_kind[f][c] = taken;
    }
    for (int n = 0; n <= kMaxGpus; ++n) {
      float best = n == 0 ? 0 : table.idle[n - 1][c] + table.part[steps_][c];
      int taken = -1;
      for (int gpus = 2; gpus <= n; ++gpus) {
        if (whole[gpus].kind < 0) continue;
        const float value = table.idle[n - gpus][c] + whole[gpus].price;
        if (value > best) best = value, taken = whole[gpus].kind;
      }
      table.idle[n][c] = best;
      if (with_sets) table.idle_kind[n][c] = taken;
    }
  }
}

template <int kCpuPrices>
float PatternPricesOf<kCpuPrices>::Worth(int model, int free_cpu, const int16_t* free, int gpus) const {
  const Table& table = tables_[table_of_[model]];
  ByCpuPrice value;
  for (int c = 0; c < kCpuPrices; ++c) value[c] = cpu_price_[c] * static_cast<float>(free_cpu);
  int idle = 0;
  for (int gpu = 0; gpu < gpus; ++gpu) {
    if (free[gpu] == kWholeGpu) {
      ++idle;
      continue;
    }
    const ByCpuPrice& part = table.part[free[gpu] / step_];
    for (int c = 0; c < kCpuPrices; ++c) value[c] += part[c];
  }
  const ByCpuPrice& whole = table.idle[idle];
  float least = value[0] + whole[0];
  for (int c = 1; c < kCpuPrices; ++c) least = std::min(least, value[c] + whole[c]);
  return least;
}

template <int kCpuPrices>
double PatternPricesOf<kCpuPrices>::AddSet(const Table& table, int cpu_price, int gpus, double times,
                                           std::vector<double>& packed) const {
  double cpu = 0;
  const auto take = [&](int kind) {
    packed[kind] += times;
    cpu += kinds_[kind].cpu_milli;
  };
  while (gpus > 0) {
    const int kind = table.idle_kind[gpus][cpu_price];
    if (kind >= 0) {
      take(kind);
      gpus -= std::min(kinds_[kind].gpus, kMaxGpus);
      continue;
    }
    for (int f = steps_; f > 0;) {
      const int part = table.part_kind[f][cpu_price];
      if (part >= 0) take(part);
      f -= part >= 0 ? StepsOf(kinds_[part]) : 1;
    }
    --gpus;
  }
  return cpu;
}

template <int kCpuPrices>
double PatternPricesOf<kCpuPrices>::AddDearestSets(const NodeClass& nodes,
                                                   std::vector<double>& packed) const {
  const Table& table = tables_[table_of_[nodes.model]];
  const auto worth = [&](int c) { return 1.0 * cpu_worth_[c] * nodes.cpu_milli + table.idle[nodes.gpus][c]; };
  int at = 0;
  for (int c = 1; c < kCpuPrices; ++c)
    if (worth(c) < worth(at)) at = c;
  // Above the price at which CPU is used up its set uses less, below more.
  const double used = AddSet(table, at, nodes.gpus, 0, packed);
  const int other = used > nodes.cpu_milli                          ? std::min(at + 1, kCpuPrices - 1)
                    : at > 0 && cpu_worth_[at - 1] < cpu_worth_[at] ? at - 1
                                                                    : at;
  const double used_there = AddSet(table, other, nodes.gpus, 0, packed);
  double share = 1;
  if ((used_there - nodes.cpu_milli) * (used - nodes.cpu_milli) < 0)
    share = (used_there - nodes.cpu_milli) / (used_there - used);
  AddSet(table, at, nodes.gpus, share * nodes.count, packed);
  AddSet(table, other, nodes.gpus, (1 - share) * nodes.count, packed);
  const double left = nodes.cpu_milli - share * used - (1 - share) * used_there;
  if (cpu_kind_ >= 0 && left > 0) packed[cpu_kind_] += nodes.count * left / kinds_[cpu_kind_].cpu_milli;
  return nodes.count * worth(at);
}

template class PatternPricesOf<16>;
template class PatternPricesOf<48>;

}  // namespace spillway::scheduler

// SPDX-License-Identifier: Apache-2.0
#include "scheduler/fill_value.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <cstdlib>

namespace spillway::scheduler {
namespace {

double Env(const char* n, double d) { const char* v = std::getenv(n); return v ? atof(v) : d; }

bool Welcome(const JobKind& kind, int model) { return kind.models == 0 || (kind.models >> model & 1) != 0; }

}  // namespace

// Which kind is taken last in the dearest set, to find the set again.
struct FillValue::Choice {
  std::array<std::array<int16_t, kSteps + 1>, kCpuPrices> part;
  std::array<std::array<int16_t, kMostGpus + 1>, kCpuPrices> idle;
};

void FillValue::Fill(const std::vector<JobKind>& kinds, int model, Table& table, Choice* choice) const {
  struct Item {
    int steps, kind;
    float price;
  };
  for (int c = 0; c < kCpuPrices; ++c) {
    std::vector<Item> items;
    std::array<Item, kMostGpus + 1> whole;
    whole.fill({0, -1, 0});
    std::array<Item, kSteps + 1> by_size;
    by_size.fill({0, -1, 0});
    for (size_t k = 0; k < kinds.size(); ++k) {
      const JobKind& kind = kinds[k];
      if (kind.gpus == 0 || !Welcome(kind, model)) continue;
      const auto price = static_cast<float>(prices_[k] - cpu_price_[c] * kind.cpu_milli);
      const int steps = (kind.milli + kStep - 1) / kStep;
      Item& item = kind.gpus == 1 ? by_size[steps] : whole[std::min(kind.gpus, kMostGpus)];
      if (price > item.price) item = {steps, static_cast<int>(k), price};
    }
    for (const Item& item : by_size)
      if (item.kind >= 0) items.push_back(item);
    table.part[0][c] = 0;
    if (choice != nullptr) choice->part[c][0] = -1;
    for (int f = 1; f <= kSteps; ++f) {
      float best = table.part[f - 1][c];
      int taken = -1;
      for (const Item& item : items)
        if (item.steps <= f && table.part[f - item.steps][c] + item.price > best)
          best = table.part[f - item.steps][c] + item.price, taken = item.kind;
      table.part[f][c] = best;
      if (choice != nullptr) choice->part[c][f] = static_cast<int16_t>(taken);
    }
    table.idle[0][c] = 0;
    for (int i = 1; i <= kMostGpus; ++i) {
      float best = table.idle[i - 1][c] + table.part[kSteps][c];
      int taken = -1;
      for (int n = 2; n <= i; ++n)
        if (whole[n].kind >= 0 && table.idle[i - n][c] + whole[n].price > best)
          best = table.idle[i - n][c] + whole[n].price, taken = whole[n].kind;
      table.idle[i][c] = best;
      if (choice != nullptr) choice->idle[c][i] = static_cast<int16_t>(taken);
    }
  }
}

void FillValue::Learn(const std::vector<JobKind>& kinds, const std::vector<Node>& nodes) {
  std::map<std::tuple<int, int, int>, int> classes;
  double all_gpus = 0;
  for (const Node& node : nodes) ++classes[{node.model, node.cpu_milli, node.gpus}], all_gpus += node.gpus;
  double mean = 0;
  for (const JobKind& kind : kinds) mean += kind.share * (kind.gpus == 1 ? kind.milli / 1000.0 : kind.gpus);
  // start: by size
  prices_.resize(kinds.size());
  for (size_t k = 0; k < kinds.size(); ++k) {
    const JobKind& kind = kinds[k];
    const double gpus = kind.gpus == 1 ? kind.milli / 1000.0 : kind.gpus;
    prices_[k] = gpus + kind.cpu_milli / 100000.0;
  }
  const auto scale = [&] {
    double sum = 0;
    for (size_t k = 0; k < kinds.size(); ++k) sum += kinds[k].share * prices_[k];
    for (double& price : prices_) price *= mean / sum;
  };
  scale();
  const int kRounds = static_cast<int>(Env("ROUNDS", 300));
  const double eta0 = Env("ETA", 0.5);
  std::vector<double> sum(kinds.size(), 0), best_prices = prices_;
  double best = 1e300;
  std::vector<Choice> choices(tables_.size());
  double count = 0;
  for (int round = 1; round <= kRounds; ++round) {
    for (size_t m = 0, t = 0; m < table_of_.size(); ++m)
      if (table_of_[m] == t) Fill(kinds, static_cast<int>(m), tables_[t], &choices[t]), ++t;
    double value = 0;
    std::vector<double> packed(kinds.size(), 0);
    for (const auto& [key, number] : classes) {
      const auto& [model, cpu, gpus] = key;
      const Table& table = tables_[table_of_[model]];
      const Choice& choice = choices[table_of_[model]];
      // The dearest set at each price of CPU, and the CPU that it uses. CPU-only jobs: as much CPU as the best
      // of them pays for is never left over.
      double cpu_only = 0;
      int cpu_kind = -1;
      for (size_t k = 0; k < kinds.size(); ++k)
        if (kinds[k].gpus == 0 && kinds[k].cpu_milli > 0 && prices_[k] / kinds[k].cpu_milli > cpu_only)
          cpu_only = prices_[k] / kinds[k].cpu_milli, cpu_kind = static_cast<int>(k);
      int at = 0;
      double low = 1e300;
      for (int c = 0; c < kCpuPrices; ++c) {
        const double price = std::max<double>(cpu_price_[c], 0);
        if (price < cpu_only && c + 1 < kCpuPrices) continue;
        const double v = price * cpu + table.idle[std::min(gpus, kMostGpus)][c];
        if (v < low) low = v, at = c;
      }
      value += number * low;
      const auto count_set = [&](int c, double weight) {
        double used = 0;
        const auto take = [&](int k, double n) {
          packed[k] += n * weight * number;
          used += n * kinds[k].cpu_milli;
        };
        int i = gpus;
        while (i > 0) {
          const int k = choice.idle[c][i];
          if (k >= 0) { take(k, 1); i -= std::min(kinds[k].gpus, kMostGpus); continue; }
          for (int f = kSteps; f > 0;) {
            const int kk = choice.part[c][f];
            if (kk < 0) { --f; continue; }
            take(kk, 1);
            f -= (kinds[kk].milli + kStep - 1) / kStep;
          }
          --i;
        }
        return used;
      };
      const double used = count_set(at, 0);
      double w = 1;
      int other = -1;
      if (used > cpu && at + 1 < kCpuPrices) other = at + 1;
      if (used < cpu && at > 0 && cpu_price_[at - 1] >= cpu_only) other = at - 1;
      if (other >= 0) {
        const double u2 = count_set(other, 0);
        if ((u2 - cpu) * (used - cpu) < 0) w = (u2 - cpu) / (u2 - used);
      }
      double total = count_set(at, w) * w;
      if (other >= 0 && w < 1) total += count_set(other, 1 - w) * (1 - w);
      if (cpu_kind >= 0 && total < cpu) packed[cpu_kind] += number * (cpu - total) / kinds[cpu_kind].cpu_milli;
    }
    if (value < best) best = value, best_prices = prices_;
    // Kinds that are packed less often than they come become dearer.
    const double eta = eta0 / std::sqrt(round);
    const double usual = value / mean;
    for (size_t k = 0; k < kinds.size(); ++k) {
      const double ratio = packed[k] / (kinds[k].share * usual);
      prices_[k] *= std::exp(-eta * std::min(ratio - 1, 3.0));
      prices_[k] = std::max(prices_[k], 1e-5);
    }
    scale();
    if (round > kRounds / 2) {
      for (size_t k = 0; k < kinds.size(); ++k) sum[k] += prices_[k];
      ++count;
    }
  }
  for (size_t k = 0; k < kinds.size(); ++k) prices_[k] = sum[k] / count;
  scale();
  capacity_ = best / mean;
  if (std::getenv("SHOW")) {
    fprintf(stderr, "gpus %.0f bound: mix packs %.2f%% of the gpus\n", all_gpus, best / all_gpus * 100);
    for (size_t k = 0; k < kinds.size(); ++k)
      fprintf(stderr, "  %d x %d cpu %d share %.4f price %.3f (%.3f)\n", kinds[k].gpus, kinds[k].milli, kinds[k].cpu_milli, kinds[k].share, prices_[k], best_prices[k]);
  }
}

FillValue::FillValue(const std::vector<JobKind>& kinds, const std::vector<Node>& nodes, size_t models) {
  for (int c = 1; c < kCpuPrices; ++c)
    cpu_price_[c] = static_cast<float>(1.0 / 80'000 * std::pow(80.0, (c - 1.0) / (kCpuPrices - 2)));
  table_of_.assign(models, 0);
  std::map<std::vector<bool>, uint16_t> seen;
  for (size_t m = 0; m < models; ++m) {
    std::vector<bool> welcome;
    for (const JobKind& kind : kinds) welcome.push_back(Welcome(kind, static_cast<int>(m)));
    table_of_[m] = seen.try_emplace(welcome, static_cast<uint16_t>(seen.size())).first->second;
  }
  tables_.resize(seen.size());
  Learn(kinds, nodes);
  const double theta = Env("THETA", 0);
  for (size_t k = 0; k < kinds.size(); ++k) {
    const double gpus = kinds[k].gpus == 1 ? kinds[k].milli / 1000.0 : kinds[k].gpus;
    prices_[k] = (1 - theta) * prices_[k] + theta * gpus;
  }
  for (size_t m = 0, t = 0; m < table_of_.size(); ++m)
    if (table_of_[m] == t) Fill(kinds, static_cast<int>(m), tables_[t], nullptr), ++t;
  // CPU that is left over is worth what CPU-only jobs pay for it: lower prices do not apply.
  double cpu_only = 0;
  for (size_t k = 0; k < kinds.size(); ++k)
    if (kinds[k].gpus == 0 && kinds[k].cpu_milli > 0) cpu_only = std::max(cpu_only, prices_[k] / kinds[k].cpu_milli);
  if (std::getenv("SHOW")) fprintf(stderr, "cpu only price %g per milli\n", cpu_only);
}

float FillValue::Of(int model, int free_cpu, const int16_t* free, int gpus) const {
  const Table& table = tables_[table_of_[model]];
  ByCpuPrice value;
  int idle = 0;
  for (int c = 0; c < kCpuPrices; ++c) value[c] = cpu_price_[c] * static_cast<float>(free_cpu);
  for (int gpu = 0; gpu < gpus; ++gpu) {
    if (free[gpu] == kWholeGpu) {
      ++idle;
      continue;
    }
    const ByCpuPrice& part = table.part[free[gpu] / kStep];
    for (int c = 0; c < kCpuPrices; ++c) value[c] += part[c];
  }
  const ByCpuPrice& whole = table.idle[idle];
  float low = value[0] + whole[0];
  for (int c = 1; c < kCpuPrices; ++c) low = std::min(low, value[c] + whole[c]);
  return low;
}

}  // namespace spillway::scheduler

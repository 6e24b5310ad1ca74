// SPDX-License-Identifier: Apache-2.0
#include "scheduler/fill_value.h"

#include <algorithm>
#include <cmath>

namespace spillway::scheduler {
namespace {

// Milli in one step. Jobs are rounded up: the few that lose by it are rarer than the steps are dear.
constexpr int kStep = 10;
constexpr int kRounds = 500;
// Of the logarithm of a price, in the first round. Larger steps learn faster and end less sure.
constexpr double kFirstStep = 0.1;
constexpr double kFairCpuWeight = 0.5, kFairerToGpusPower = 2;
// What a GPU's usual share of CPU costs at the beginning, in GPUs. Forgotten in a few dozen rounds.
constexpr double kFirstCpuPrice = 0.2;

// By so much dearer is a kind of which all wait. 1 to 3 do alike.
constexpr double kWaitingPremium = 1;

double GpusOf(const JobKind& kind) { return kind.gpus == 1 ? 1.0 * kind.milli / kWholeGpu : kind.gpus; }

}  // namespace

const char* ToString(PriceRule rule) {
  constexpr const char* kNames[] = {"in-proportion", "fair", "fairer-to-gpus"};
  return kNames[static_cast<int>(rule)];
}

std::optional<PriceRule> PriceRuleByName(std::string_view name) {
  for (const PriceRule rule : kPriceRules)
    if (name == ToString(rule)) return rule;
  return std::nullopt;
}

FillValue::FillValue(const std::vector<JobKind>& kinds, const std::vector<Node>& nodes, size_t models,
                     const std::vector<double>& waiting, PriceRule rule, const std::function<bool()>& stop)
    : rule_(rule), classes_(ClassesOf(nodes)), pricing_(kinds, classes_, models, kStep) {
  double gpus = 0, cpu = 0, mean = 0;
  for (const NodeClass& one : classes_) {
    gpus += 1.0 * one.gpus * one.count;
    if (one.cpu_milli < kUnlimited / 2) cpu += 1.0 * one.cpu_milli * one.count;
  }
  for (const JobKind& kind : kinds) mean += kind.share * GpusOf(kind);
  for (const JobKind& kind : kinds)
    prices_.push_back(GpusOf(kind) + kFirstCpuPrice * kind.cpu_milli * gpus / std::max(cpu, 1.0));
  // The dual: of all prices at which the mean job costs what it takes of GPUs, those at which the cluster is
  // worth least. Kinds that the dearest sets hold too rarely become dearer (multiplicative weights, the step
  // of each kind divided by how much it has swung). The mean of the later rounds is near the optimum.
  const auto scale = [&] {
    double sum = 0;
    for (size_t k = 0; k < kinds.size(); ++k) sum += kinds[k].share * prices_[k];
    if (sum > 0)
      for (double& price : prices_) price *= mean / sum;
  };
  if (mean <= 0 || gpus <= 0) {
    pricing_.SetPrices(prices_, false);
    return;
  }
  std::vector<double> swings(kinds.size(), 1), sum(kinds.size(), 0), packed(kinds.size());
  std::vector<double> wanted(kinds.size());  // of each kind, up to a factor
  double wanted_worth = 0;
  const auto want = [&] {
    wanted_worth = 0;
    for (size_t k = 0; k < kinds.size(); ++k) {
      wanted[k] = kinds[k].share;
      if (rule != PriceRule::kInProportion) {
        const double weight =
            GpusOf(kinds[k]) + kFairCpuWeight * kinds[k].cpu_milli * gpus / std::max(cpu, 1.0);
        wanted[k] *=
            std::pow(std::max(weight, 1e-6) / prices_[k], rule == PriceRule::kFair ? 1 : kFairerToGpusPower);
      }
      wanted_worth += wanted[k] * prices_[k];
    }
  };
  double least = -1;
  for (int round = 1; round <= kRounds && !(stop && stop()); ++round) {
    scale();
    pricing_.SetPrices(prices_, true);
    std::fill(packed.begin(), packed.end(), 0);
    double worth = 0;
    for (const NodeClass& one : classes_) worth += pricing_.AddDearestSets(one, packed);
    if (least < 0 || worth < least) least = worth;
    want();
    for (size_t k = 0; k < kinds.size(); ++k) {
      if (round > kRounds / 2) sum[k] += prices_[k];
      const double swing = packed[k] / (wanted[k] * worth / wanted_worth) - 1;
      swings[k] += swing * swing;
      prices_[k] = std::max(prices_[k] * std::exp(-kFirstStep * swing / std::sqrt(swings[k])), 1e-5);
    }
  }
  prices_ = sum;
  scale();
  // The program takes jobs to be packed anew at will, so that eight idle GPUs are worth the same on one node
  // as on eight. Where jobs leave one by one that is wrong, and those who wait show by how much.
  for (size_t k = 0; k < waiting.size(); ++k) prices_[k] *= 1 + kWaitingPremium * waiting[k];
  pricing_.SetPrices(prices_, false);
  full_at_ = std::min(1.0, least / gpus);
}

void FillValue::Reprice(std::vector<double> prices) {
  prices_ = std::move(prices);
  pricing_.SetPrices(prices_, false);
}

}  // namespace spillway::scheduler

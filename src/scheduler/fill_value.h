// SPDX-License-Identifier: Apache-2.0
// What the free GPUs and CPU of a node are still worth to the jobs that usually come: the look-ahead of
// policy `spillway`. Pure; thread-safe once built.
//
// Online packing by the prices of a linear program. The program asks how often the usual mix of jobs fits
// into the whole cluster, all kinds in proportion; its dual gives each kind a price, in GPUs: near 1 for a
// job that leaves nothing of use on its GPU (a 810 where nothing of 190 comes), little for one that fills
// what others leave over, and for CPU where that is short. A node is worth the dearest set of jobs that fits
// into what it has left, and a job should go where that falls least.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "scheduler/pattern_prices.h"

namespace spillway::scheduler {

// For what share of each kind prices are made.
//   in-proportion  the mix as often as it fits. Right where the cluster is full by then
//   fair, fairer to GPUs
//                  where CPU (or a model) runs out long before, jobs with little of it go on to fit, and the
//                  kinds that cost much of it are soon refused: each kind as often as evens out
//                  (weight / price)^(1 / steepness), the weight being its GPUs and half its share of the CPU.
//                  (Proportional fairness, and a step further from keeping proportions.)
enum class PriceRule : uint8_t { kInProportion, kFair, kFairerToGpus };
inline constexpr PriceRule kPriceRules[] = {PriceRule::kInProportion, PriceRule::kFair,
                                            PriceRule::kFairerToGpus};
[[nodiscard]] const char* ToString(PriceRule rule);
[[nodiscard]] std::optional<PriceRule> PriceRuleByName(std::string_view name);

class FillValue {
 public:
  // `kinds`: what usually comes. `nodes`: as they are when empty. Takes some tenths of a second for hundreds
  // of kinds on a dozen classes of nodes.
  // `waiting`: of the jobs of each kind that are there now, the share that waits; none: nobody does.
  // Once `stop` says so, it ends soon, with prices that are of no use.
  FillValue(const std::vector<JobKind>& kinds, const std::vector<Node>& nodes, size_t models,
            const std::vector<double>& waiting = {}, PriceRule rule = PriceRule::kInProportion,
            const std::function<bool()>& stop = {});

  // In GPUs. `free`: milli of each GPU.
  [[nodiscard]] float Of(int model, int free_cpu, const int16_t* free, int gpus) const {
    return pricing_.Worth(model, free_cpu, free, gpus);
  }

  [[nodiscard]] PriceRule rule() const { return rule_; }
  [[nodiscard]] const std::vector<double>& prices() const { return prices_; }  // of the kinds, in GPUs
  // From now on by these, one per kind. What full_at says was proven by the program's prices and stays.
  void Reprice(std::vector<double> prices);
  // The share of the cluster's GPUs that is allocated when the mix has come as often as it can be packed at
  // all: no policy places all jobs for longer, if they come in the usual proportions. Proven by the prices;
  // of rule in-proportion alone.
  [[nodiscard]] double full_at() const { return full_at_; }

 private:
  PriceRule rule_;
  std::vector<NodeClass> classes_;
  PatternPrices pricing_;
  std::vector<double> prices_;
  double full_at_ = 1;
};

}  // namespace spillway::scheduler

// SPDX-License-Identifier: Apache-2.0
// The dearest set of jobs that fits into what a node has free, where each kind of job has a price: the
// pricing problem of cutting stock by linear programming (Gilmore and Gomory 1961). Pure; thread-safe between
// SetPrices.
//
// CPU comes in through a price of its own, the one at which the node is worth least (Lagrange), out of
// kCpuPrices: so the result is never below the dearest set, and above it by a little where CPU is short. Host
// memory is left out, which can only make it higher. So what is proven with it holds.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "scheduler/cluster.h"
#include "scheduler/fragmentation.h"

namespace spillway::scheduler {

// Nodes that are alike, empty.
struct NodeClass {
  int model = 0, cpu_milli = 0, gpus = 0, count = 0;
};
[[nodiscard]] std::vector<NodeClass> ClassesOf(const std::vector<Node>& nodes);

// More prices of CPU cost time and come nearer to the dearest set.
template <int kCpuPrices>
class PatternPricesOf {
 public:
  // `step`: milli of a GPU are counted in such steps, a job's rounded up. Exact where all are multiples of
  // it.
  PatternPricesOf(std::vector<JobKind> kinds, const std::vector<NodeClass>& classes, size_t models, int step);

  [[nodiscard]] const std::vector<JobKind>& kinds() const { return kinds_; }

  // One price per kind, 0 or more. `with_sets`: AddDearestSets will be asked.
  void SetPrices(const std::vector<double>& prices, bool with_sets);

  // What the dearest set of jobs with GPUs is worth on a node with so much left. `free`: milli of each GPU.
  [[nodiscard]] float Worth(int model, int free_cpu, const int16_t* free, int gpus) const;

  // The same with CPU-only jobs for all nodes of the class, empty; adds to `packed` how many of each kind the
  // sets hold. Where the best price of CPU lies between two, their sets are mixed so that the CPU is used up.
  double AddDearestSets(const NodeClass& nodes, std::vector<double>& packed) const;

 private:
  using ByCpuPrice = std::array<float, kCpuPrices>;
  struct Table {
    std::vector<ByCpuPrice> part;               // of one GPU with so many steps free
    std::array<ByCpuPrice, kMaxGpus + 1> idle;  // of so many idle GPUs
    // The kind that is taken last in the dearest set; -1: the set is that of one step or one GPU less, or of
    // so many GPUs apart. [step or GPUs][price of CPU]
    std::vector<std::array<int32_t, kCpuPrices>> part_kind, idle_kind;
  };
  void Fill(int model, Table& table, bool with_sets) const;
  // Adds `times` the set at that price of CPU; returns the CPU that one uses.
  double AddSet(const Table& table, int cpu_price, int gpus, double times, std::vector<double>& packed) const;
  [[nodiscard]] int StepsOf(const JobKind& kind) const { return (kind.milli + step_ - 1) / step_; }

  std::vector<JobKind> kinds_;
  int step_, steps_;
  ByCpuPrice cpu_price_ = {};  // per thousandth of a core
  ByCpuPrice cpu_worth_ = {};  // the same, but at least what jobs without GPUs pay
  int cpu_kind_ = -1;          // of those the one that pays most
  std::vector<double> prices_;
  std::vector<Table> tables_;  // models that all kinds treat alike share one
  std::vector<uint16_t> table_of_;
};
using PatternPrices = PatternPricesOf<16>;      // for decisions
using FinePatternPrices = PatternPricesOf<48>;  // for bounds

}  // namespace spillway::scheduler

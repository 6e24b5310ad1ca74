// SPDX-License-Identifier: Apache-2.0
// What the free GPUs and CPU of a node are still worth to the jobs that usually come, packed as well as they can
// be: the look-ahead of policy `spillway`. Pure; thread-safe once built.
//
// Online packing by the prices of a linear program (cutting stock, Gilmore and Gomory 1961). The program asks
// how often the usual mix of jobs fits into the whole cluster; its dual gives each kind of job a price, in GPUs:
// 1 for a job that leaves nothing of use on its GPU, little for one that fills what others leave over. A node
// is worth the dearest set of jobs that fits into what it has left; a job should go where that falls least.
// CPU comes in through a price per thousandth of a core, the one at which the node is worth least (Lagrange):
// free GPUs beside too little CPU are worth no more than the jobs that the CPU can feed.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "scheduler/cluster.h"
#include "scheduler/fragmentation.h"

namespace spillway::scheduler {

class FillValue {
 public:
  // `kinds`: what usually comes, with shares. `nodes` as they are when empty.
  FillValue(const std::vector<JobKind>& kinds, const std::vector<Node>& nodes, size_t models);

  // In GPUs. `free`: milli of each GPU; a GPU with kWholeGpu is idle.
  [[nodiscard]] float Of(int model, int free_cpu, const int16_t* free, int gpus) const;

  // How many times the mix, scaled to one job on average, fits into the cluster: at most this often.
  [[nodiscard]] double capacity() const { return capacity_; }
  [[nodiscard]] const std::vector<double>& prices() const { return prices_; }

 private:
  static constexpr int kCpuPrices = 16;
  static constexpr int kStep = 10;  // milli
  static constexpr int kSteps = kWholeGpu / kStep;
  using ByCpuPrice = std::array<float, kCpuPrices>;
  struct Table {
    std::array<ByCpuPrice, kSteps + 1> part;       // of one GPU with so many steps free
    std::array<ByCpuPrice, kMostGpus + 1> idle;    // of so many idle GPUs
  };
  struct Choice;
  void Fill(const std::vector<JobKind>& kinds, int model, Table& table, Choice* choice) const;
  void Learn(const std::vector<JobKind>& kinds, const std::vector<Node>& nodes);

  ByCpuPrice cpu_price_ = {};  // GPUs per milli of CPU
  std::vector<double> prices_;
  double capacity_ = 0;
  std::vector<Table> tables_;
  std::vector<uint16_t> table_of_;  // model
};

}  // namespace spillway::scheduler

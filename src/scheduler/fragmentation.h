// SPDX-License-Identifier: Apache-2.0
// How much of what a node has left is of no use to the jobs that usually come. Pure; thread-safe once built.
//
// Source: "Beware of Fragmentation" (FGD), USENIX ATC 2023: for each kind of job, the free milli of the GPUs
// that could not take it (all of the node's where CPU or model forbid it), weighted by how often it comes.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "scheduler/cluster.h"

namespace spillway::scheduler {

// Jobs that ask for the same, but for host memory.
struct JobKind {
  int cpu_milli, gpus, milli;
  ModelSet models;
  double share = 0;  // of all jobs
};

// The kinds of jobs that usually come and how often, laid out so that one node costs a look-up per GPU.
class JobMix {
 public:
  // `jobs`: what came so far, or what is expected. Rare kinds are left out: the most frequent ones, until
  // they are kCoverage of all. No jobs at all: whole GPUs are expected.
  JobMix(const std::vector<Job>& jobs, int models);
  static constexpr double kCoverage = 0.95;

  // Expected milli of no use on a node of `model` with so much free CPU and these GPUs.
  [[nodiscard]] double Fragmentation(int model, int free_cpu, const int16_t* free, int gpus) const;

  [[nodiscard]] size_t kinds() const { return kinds_.size(); }
  // As good as all kinds that come, the most frequent first.
  [[nodiscard]] const std::vector<JobKind>& nearly_all() const { return nearly_all_; }
  // Of all jobs that ask for GPUs, the share that asks for certain models.
  [[nodiscard]] double choosy() const { return choosy_; }

 private:
  // By model and by how much CPU is free: `useless` kinds take nothing there. `tail[l]`: the share of kinds
  // of up to one GPU that a GPU cannot take when its free milli reach the l-th level. Kinds of n GPUs apart.
  struct Row {
    double useless = 0;
    std::vector<double> tail;
    std::array<double, kMaxGpus + 1> by_gpus = {};
    bool any_multi = false;
  };
  const Row& RowFor(int model, int free_cpu) const;

  std::vector<JobKind> kinds_, nearly_all_;
  double choosy_ = 0;
  std::vector<int> cpu_steps_;                         // ascending
  std::array<uint16_t, kWholeGpu + 1> level_of_ = {};  // of free milli
  std::vector<Row> rows_;                              // [model][CPU step]
};

}  // namespace spillway::scheduler

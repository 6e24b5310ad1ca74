// SPDX-License-Identifier: Apache-2.0
#include "scheduler/peer_scores.h"

#include <algorithm>

namespace spillway::scheduler {
namespace {

// The largest node of FGD's cluster, by which all is normalised.
constexpr double kMaxCpuMilli = 128'000;
constexpr int kMaxGpuMilli = 8'000;
constexpr int kMaxScore = 100;

}  // namespace

int BestFitScore(const Job& job, const Node& node) {
  const double left = 0.5 * (node.free_cpu - job.cpu_milli) / kMaxCpuMilli +
                      0.5 * (node.FreeMilli() - job.TotalMilli()) / kMaxGpuMilli;
  return static_cast<int>((1 - left) * kMaxScore);
}

int DotProductScore(const Job& job, const Node& node) {
  const double cpu = node.free_cpu / kMaxCpuMilli * (job.cpu_milli / kMaxCpuMilli);
  const double gpu = 1.0 * node.FreeMilli() / kMaxGpuMilli * job.TotalMilli() / kMaxGpuMilli;
  return static_cast<int>((1 - (cpu + gpu) / 2) * kMaxScore);
}

int GpuClusteringScore(const Job& job, const Node& node) {
  if (job.gpus == 0) return 0;
  const auto kinds = std::count_if(node.jobs_by_gpus.begin(), node.jobs_by_gpus.end(),
                                   [](uint16_t count) { return count > 0; });
  const bool same = node.jobs_by_gpus[job.Fractional() ? 0 : job.gpus] > 0;
  const int quarter = same ? (kinds == 1 ? 3 : 2) : (kinds == 0 ? 1 : 0);
  return kMaxScore / 4 * (kMaxGpuMilli - node.FreeMilli()) / kMaxGpuMilli + kMaxScore / 4 * quarter;
}

int GpuPackingScore(const Job& job, const Node& node) {
  if (job.gpus == 0) return 0;
  const int idle = node.IdleGpus();
  if (idle == node.gpus) return std::max(kMaxScore / 3 - idle, idle);
  int fullest = kWholeGpu;  // of the GPUs that fit, the one with the least free
  if (job.Fractional())
    for (int gpu = 0; gpu < node.gpus; ++gpu)
      if (node.free[gpu] >= job.milli) fullest = std::min<int>(fullest, node.free[gpu]);
  if (fullest == kWholeGpu) return std::max(kMaxScore / 2 - job.gpus, kMaxScore / 3);
  return std::max(kMaxScore - fullest * 100 / kWholeGpu / 10, kMaxScore / 2);
}

}  // namespace spillway::scheduler

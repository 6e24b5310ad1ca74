// SPDX-License-Identifier: Apache-2.0
// The placement heuristics that FGD (USENIX ATC 2023) was compared with, as its published runs define them.
// FGD's own score is Placer::Rate's, by fragmentation.h. Whole scores from 0 to 100 of a node for a job that
// fits there, higher is better. Host memory is filtered, not scored. Within the node they take the GPU with
// the least free milli that fits. Pure.
#pragma once

#include "scheduler/cluster.h"

namespace spillway::scheduler {

// Least CPU and GPU left over, each as a share of the largest node's.
[[nodiscard]] int BestFitScore(const Job& job, const Node& node);
// Tetris: the smaller the dot product of what the job asks for and what the node has left, the better.
[[nodiscard]] int DotProductScore(const Job& job, const Node& node);
// Gandiva: nodes that run jobs of the same kind (a part of a GPU, one, two, ...) first, alone there at best;
// then idle nodes; then others. Jobs without GPUs: the first node that fits.
[[nodiscard]] int GpuClusteringScore(const Job& job, const Node& node);
// Used GPUs first, then idle GPUs of used nodes, then idle nodes. Jobs without GPUs: the first node that
// fits.
[[nodiscard]] int GpuPackingScore(const Job& job, const Node& node);

}  // namespace spillway::scheduler

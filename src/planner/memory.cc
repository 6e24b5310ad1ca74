// SPDX-License-Identifier: Apache-2.0
#include "planner/memory.h"

#include <algorithm>

namespace spillway::planner {

double CheckpointPeakGb(const Checkpoint& c, int accelerators) {
  const double whole = c.copies * c.model_gb_per_accelerator * accelerators;
  // A model smaller than its chunks is one chunk.
  return c.streaming ? std::min(whole, 2 * c.chunk_gb) : whole;
}

double WorkerMemoryGb(const NodeMemory& m, int nodes) {
  return m.kernel_gb + m.runtime_gb + m.data_gb / nodes;
}

double AcceleratorMemoryGb(const NodeMemory& m, const Checkpoint& c, int nodes, int accelerators) {
  return WorkerMemoryGb(m, nodes) + CheckpointPeakGb(c, accelerators);
}

int AcceleratorsThatFit(const NodeMemory& m, const Checkpoint& c, int nodes, double memory_gb, int most) {
  int fit = 0;
  while (fit < most && AcceleratorMemoryGb(m, c, nodes, fit + 1) <= memory_gb) fit++;
  return fit;
}

}  // namespace spillway::planner

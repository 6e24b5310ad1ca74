// SPDX-License-Identifier: Apache-2.0
// How much memory a node needs. Pure. Source: Lovelock, table 2 and sections 5.3 and 6.
#pragma once

namespace spillway::planner {

// What any node of an application holds. Smaller nodes repeat the fixed parts more often.
struct NodeMemory {
  double kernel_gb = 0;   // 1-2 GB on storage nodes (section 6)
  double runtime_gb = 0;  // of the application, whatever the node's share of the data
  double data_gb = 0;     // of the whole cluster, divided evenly
  bool operator==(const NodeMemory&) const = default;
};

// Training writes checkpoints: without streaming, whole copies of what its accelerators hold lie in the
// node's memory at once; with it, two chunks: one is filled while the other is written.
struct Checkpoint {
  double model_gb_per_accelerator = 0;
  double copies = 2;  // parameters and optimizer states: up to twice the model (section 5.3)
  double chunk_gb = 1;
  bool streaming = false;
  bool operator==(const Checkpoint&) const = default;
};

[[nodiscard]] double CheckpointPeakGb(const Checkpoint& checkpoint, int accelerators);

// Of one of `nodes` equal nodes.
[[nodiscard]] double WorkerMemoryGb(const NodeMemory& memory, int nodes);

// Of a node with so many accelerators, at its peak.
[[nodiscard]] double AcceleratorMemoryGb(const NodeMemory& memory, const Checkpoint& checkpoint, int nodes,
                                         int accelerators);

// The most accelerators that fit `memory_gb`, at most `most`. 0: not one.
[[nodiscard]] int AcceleratorsThatFit(const NodeMemory& memory, const Checkpoint& checkpoint, int nodes,
                                      double memory_gb, int most);

}  // namespace spillway::planner

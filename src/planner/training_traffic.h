// SPDX-License-Identifier: Apache-2.0
// What training moves between nodes: gradients (all-reduce) and graph mini-batches. Pure.
#pragma once

namespace spillway::planner {

// Bytes that an all-reduce of `gradient_gb` moves between `nodes` nodes, all of them together, when the
// accelerators inside a node reduce among themselves first: 2 (n - 1) gradients. One node: none.
[[nodiscard]] double AllReduceGb(double gradient_gb, double nodes);

// The same relative to `baseline_nodes` (>= 2): (n - 1) / (n0 - 1), which tends to n / n0, the phi of
// Lovelock's section 6, when n0 is large.
[[nodiscard]] double AllReduceGrowth(double baseline_nodes, double nodes);

// Training on graphs: every mini-batch fetches remote data (Lovelock, section 5.3).
struct MiniBatches {
  double remote_mb = 0;              // fetched per mini-batch
  double per_accelerator_per_s = 0;  // what one accelerator could compute
  int accelerators = 0;              // that share a network
  double network_gbps = 0;
  double WantedPerS() const { return per_accelerator_per_s * accelerators; }
  double NetworkAllowsPerS() const { return network_gbps * 1000 / 8 / remote_mb; }
  double WantedGbps() const { return WantedPerS() * remote_mb * 8 / 1000; }
  double PerS() const;         // of the two, the lesser
  double Utilisation() const;  // of the accelerators: 0..1
};

}  // namespace spillway::planner

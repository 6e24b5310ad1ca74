// SPDX-License-Identifier: Apache-2.0
// How long an application takes on another cluster, from where its time goes on the baseline: its parts
// follow each other (but for accelerators that compute while data comes), and each scales by itself. Pure.
// Source: Lovelock, sections 5.2 and 5.3.
#pragma once

namespace spillway::planner {

// Shares of the baseline's execution time; they sum to 1.
struct TimeShares {
  double cpu = 0;          // scales with the workers' throughput
  double shuffle = 0;      // workers to workers: with their network
  double storage = 0;      // to remote storage: with the narrowest of clients, storage nodes and drives
  double accelerator = 0;  // accelerators compute: with their number
  double stall = 0;        // accelerators wait for the network: with their nodes' network
  double Sum() const { return cpu + shuffle + storage + accelerator + stall; }
  bool operator==(const TimeShares&) const = default;
};

// A part of time `share` on `baseline` of a resource, with `now` of it (> 0, same unit). Linear, as the
// paper assumes.
[[nodiscard]] double Scaled(double share, double baseline, double now);

// Accelerators' time: computing, and waiting for data. `overlap`: data for the next step come while this
// one is computed, so that the longer of the two counts; what is fetched then took compute + stall.
// compute_ratio, network_ratio: baseline over now, of accelerators and of their nodes' network.
// traffic_growth: bytes over the fabric relative to the baseline.
[[nodiscard]] double AcceleratorTime(const TimeShares& shares, bool overlap, double compute_ratio,
                                     double network_ratio, double traffic_growth);

// The cpu share that makes `cpu_slowdown / phi * cpu + (1 - cpu) / phi` equal to mu: what an application
// whose rest is network must have been. Source: Lovelock, section 5.2.
[[nodiscard]] double CpuShareBehind(double mu, double phi, double cpu_slowdown);
// The forward direction: mu at phi.
[[nodiscard]] double SlowdownAt(double cpu_share, double phi, double cpu_slowdown);

}  // namespace spillway::planner

// SPDX-License-Identifier: Apache-2.0
// How many watts are saved where a SmartNIC enqueues instead of the host: reviewers of the DLB paper (ISCA
// 2025) asked for the absolute power behind its "10 %". A model: power is shared out over the work that a
// machine can do, so work that takes a share of the host's cores takes that share of its watts. Defaults:
// Conspirator (ATC 2024), where a host of 800 W does 1,000 and a SmartNIC of 150 W does 270; 64 cores are an
// assumption. Pure, but for PackageEnergy.
#pragma once

#include <optional>
#include <string>

namespace spillway::bench {

struct PowerBaseline {
  double host_watts = 800;
  double host_cores = 64;
  double nic_watts = 150;
  double nic_throughput = 0.27;  // of all the NIC's cores, the host's being 1
};

struct EnqueueEnergy {
  double host_cores = 0;        // that only enqueue, when the host does it
  double host_watts = 0;        // of those
  double nic_share = 0;         // of the NIC's cores, when the NIC does it
  double nic_watts = 0;         // of that share
  double saving_pct = 0;        // of the host's watts
  double saving_idle_pct = 0;   // if the NIC's power is spent anyway
  double share_for_10_pct = 0;  // of the host's cores that would have to be freed to save 10 %
};

// host_cpu_s, nic_cpu_s: CPU seconds of a host core per million events of a local and of a remote producer.
[[nodiscard]] EnqueueEnergy EnergyOfEnqueueing(const PowerBaseline& power, double host_cpu_s,
                                               double nic_cpu_s, double mevents_per_s);

// Joules of the CPU package so far (RAPL); none where the machine does not count them.
class PackageEnergy {
 public:
  explicit PackageEnergy(std::string file = "/sys/class/powercap/intel-rapl:0/energy_uj");
  [[nodiscard]] std::optional<double> Joules() const;

 private:
  std::string file_;
};

}  // namespace spillway::bench

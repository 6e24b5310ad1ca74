// SPDX-License-Identifier: Apache-2.0
#include "bench/dispatch/energy.h"

#include <fstream>
#include <utility>

namespace spillway::bench {

EnqueueEnergy EnergyOfEnqueueing(const PowerBaseline& power, double host_cpu_s, double nic_cpu_s,
                                 double mevents_per_s) {
  EnqueueEnergy energy;
  energy.host_cores = host_cpu_s * mevents_per_s;
  energy.host_watts = energy.host_cores / power.host_cores * power.host_watts;
  energy.nic_share = nic_cpu_s * mevents_per_s / power.host_cores / power.nic_throughput;
  energy.nic_watts = energy.nic_share * power.nic_watts;
  energy.saving_pct = 100 * (energy.host_watts - energy.nic_watts) / power.host_watts;
  energy.saving_idle_pct = 100 * energy.host_watts / power.host_watts;
  // As much work, moved: what the NIC's watts do for each of the host's.
  const double nic_per_host = power.nic_watts / power.nic_throughput / power.host_watts;
  energy.share_for_10_pct = nic_per_host < 1 ? 0.1 / (1 - nic_per_host) : 0;
  return energy;
}

PackageEnergy::PackageEnergy(std::string file) : file_(std::move(file)) {}

std::optional<double> PackageEnergy::Joules() const {
  std::ifstream in(file_);
  double microjoules = 0;
  if (!(in >> microjoules)) return std::nullopt;
  return microjoules / 1e6;
}

}  // namespace spillway::bench

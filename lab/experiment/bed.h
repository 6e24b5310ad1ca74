// SPDX-License-Identifier: Apache-2.0
// A testbed that stands and the experiment that is run on it: load on the service or on one unit, by a
// policy, after what came before has been worked off. One thread, the program's main one.
#pragma once

#include "client.h"

namespace spillway::lab {

inline constexpr double kLatencyLimit = 10;  // times the unloaded latency (P4Mite, ICNP 2022)

class Bed {
 public:
  // Keeps both references.
  Bed(const ExperimentSpec& spec, Testbed& testbed);

  [[nodiscard]] const ExperimentSpec& spec() const { return spec_; }
  [[nodiscard]] const Testbed& testbed() const { return testbed_; }
  [[nodiscard]] const model::Service& service() const { return service_; }

  [[nodiscard]] Result<void> Balance(const PolicyRun& policy);
  // Open loop at that rate (0: closed loop) on the target, once the units are idle. `timeout_s`: of a request; 0:
  // what fits before the limit is known.
  [[nodiscard]] Result<Sample> Load(const model::Address& target, double rate, double seconds,
                                    double timeout_s = 0, uint64_t seed = 1) const;
  [[nodiscard]] Result<Sample> LoadService(double rate, double seconds, double timeout_s = 0,
                                           uint64_t seed = 1) const {
    return Load(service_.vip, rate, seconds, timeout_s, seed);
  }
  // The time-out that Load takes for 0.
  [[nodiscard]] double ProvisionalTimeoutS() const;

 private:
  [[nodiscard]] Result<void> Settle() const;

  const ExperimentSpec& spec_;
  Testbed& testbed_;
  const model::Service& service_;
};

[[nodiscard]] bool AnyComputes(const TestbedSpec& testbed);

}  // namespace spillway::lab

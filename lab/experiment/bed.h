// SPDX-License-Identifier: Apache-2.0
// A testbed that stands and the experiment that is run on it: load on the service or on one unit, by a
// policy, after what came before has been worked off. One thread, the program's main one.
#pragma once

#include <cstdint>
#include <vector>

#include "client.h"
#include "slow_slices.h"

namespace spillway::lab {

inline constexpr double kLatencyLimit = 10;  // times the unloaded latency (P4Mite, ICNP 2022)

class Bed {
 public:
  // Keeps both references.
  Bed(const ExperimentSpec& spec, Testbed& testbed);

  [[nodiscard]] const ExperimentSpec& spec() const { return spec_; }
  [[nodiscard]] const Testbed& testbed() const { return testbed_; }
  [[nodiscard]] const model::Service& service() const { return service_; }

  // With the policy's agents. True: these were started afresh, so that they have learnt nothing yet.
  [[nodiscard]] Result<bool> Balance(const PolicyRun& policy);
  // Waits until the units are idle. Errors: "interrupted", or a part of the testbed that ended.
  [[nodiscard]] Result<void> Settle() const;
  // Open loop at that rate (0: closed loop) on the target. `timeout_s`: of a request; 0: what fits before the
  // limit is known.
  [[nodiscard]] Result<Sample> Load(const model::Address& target, double rate, double seconds,
                                    double timeout_s = 0, uint64_t seed = 1) const;
  // The same once the units are idle.
  [[nodiscard]] Result<Sample> LoadIdle(const model::Address& target, double rate, double seconds) const {
    return Settle().and_then([&] { return Load(target, rate, seconds); });
  }
  // What the units have done so far. Without packets where the switch does not tell, and where CPU time does
  // not depend on them: of emulated units, and of those with a neighbour.
  [[nodiscard]] std::vector<UnitWork> WorkOfUnits() const;
  // The time-out that Load takes for 0.
  [[nodiscard]] double ProvisionalTimeoutS() const;

 private:
  const ExperimentSpec& spec_;
  Testbed& testbed_;
  const model::Service& service_;
};

[[nodiscard]] bool AnyComputes(const TestbedSpec& testbed);

}  // namespace spillway::lab

// SPDX-License-Identifier: Apache-2.0
// Runs experiments one after the other, each with a testbed of its own: testbed up, capacities measured,
// policies swept over load, testbed down; then one report of all.
//
// Loss, as the P4Mite paper (ICNP 2022) has it: a request without an answer, or answered later than ten
// times the unloaded latency. That is the median at 10 % load of the first unit, and at least its quota
// period: a unit whose CPU time is rationed makes a request wait for the next period, whatever the load.
#pragma once

#include <string>
#include <vector>

#include "experiment_spec.h"

namespace spillway::lab {

struct ExperimentOutput {
  std::string text;      // table and findings, for a terminal
  std::string document;  // the JSON document
  bool interrupted = false;
};

// `name`: of the report. Shows its progress on stderr. With `out_folder`, writes report.html and
// report.json there. Call inside a base::InterruptGuard; interrupted, it takes the testbed down and gives
// what the rounds say that were finished by then; it fails with "interrupted" if there is none.
[[nodiscard]] Result<ExperimentOutput> RunExperiments(const std::string& name,
                                                      const std::vector<ExperimentSpec>& specs,
                                                      const std::string& out_folder);

}  // namespace spillway::lab

// SPDX-License-Identifier: Apache-2.0
#include "planner/check/rehearsal_report.h"

#include <fmt/format.h>

#include "report/table.h"

namespace spillway::planner {

std::string RehearsalText(const PlanInput& input, const Mix& mix, const Rehearsal& rehearsal) {
  report::Table table({{"cluster", "cluster"},
                       {"policy", "policy"},
                       {"rate_rps", "rate [1/s]"},
                       {"planned_rps", "planned max [1/s]"},
                       {"simulated_rps", "simulated max [1/s]"},
                       {"planned_utilisation", "planned use", 3},
                       {"simulated_utilisation", "simulated use", 3},
                       {"planned_mean_ms", "planned mean [ms]"},
                       {"simulated_mean_ms", "simulated mean [ms]"},
                       {"simulated_p99_ms", "simulated p99 [ms]"}});
  for (const Rehearsed& row : rehearsal.rows)
    table.AddRow({row.cluster, row.policy, row.rate_rps, row.planned_rps, row.simulated_rps,
                  row.planned_utilisation, row.simulated_utilisation, row.planned_mean_ms,
                  row.simulated_mean_ms, row.simulated_p99_ms});
  std::string text = fmt::format("{}\nbaseline: {}\nplan:     {}\n\n{}\nslowdown: planned {:.3f}",
                                 input.workload.name, Describe(input.catalogue, input.workload.baseline),
                                 Describe(input.catalogue, mix), table.Text(), rehearsal.planned_slowdown);
  for (const auto& [policy, slowdown] : rehearsal.simulated_slowdown)
    text += fmt::format(", simulated with {} {:.3f} ({:+.1f} %)", policy, slowdown,
                        100 * (slowdown / rehearsal.planned_slowdown - 1));
  for (const auto& [policy, slowdown] : rehearsal.simulated_slowdown) {
    const double limit = input.workload.limits.slowdown;
    if (slowdown > limit)
      text += fmt::format(
          "\nwith {} over the limit of slowdown, {:.3f}: with --slo {:.3f} the search leaves room for it",
          policy, limit, limit * rehearsal.planned_slowdown / slowdown);
  }
  return text +
         "\nPlanned latency: every worker may serve every request. Simulated: a balancer places each on a "
         "node when it "
         "comes, on what agents reported.\n";
}

report::Document RehearsalDocument(const PlanInput& input, const Rehearsal& rehearsal) {
  report::Document document("plan.simulate." + input.workload.name);
  for (const Rehearsed& row : rehearsal.rows)
    document.AddRow({{"cluster", row.cluster},
                     {"policy", row.policy},
                     {"rate_rps", row.rate_rps},
                     {"planned_rps", row.planned_rps},
                     {"simulated_rps", row.simulated_rps},
                     {"planned_utilisation", row.planned_utilisation},
                     {"simulated_utilisation", row.simulated_utilisation},
                     {"planned_mean_ms", row.planned_mean_ms},
                     {"simulated_mean_ms", row.simulated_mean_ms},
                     {"simulated_p99_ms", row.simulated_p99_ms},
                     {"lost", row.lost}});
  document.SetRatio("planned_slowdown", rehearsal.planned_slowdown);
  for (const auto& [policy, slowdown] : rehearsal.simulated_slowdown)
    document.SetRatio("simulated_slowdown_" + policy, slowdown);
  return document;
}

}  // namespace spillway::planner

// SPDX-License-Identifier: Apache-2.0
#include "sim/findings.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "report/percentile.h"

namespace spillway::sim {
namespace {

using Point = std::tuple<std::string, std::string, std::string, double>;

Point PointOf(const Row& row) { return {row.app, row.arrivals, row.reports, row.axis}; }

bool IsBound(const PolicyChoice& policy) { return policy.decider == DeciderKind::kOmniscient; }

bool IsHeadroom(const PolicyChoice& policy) {
  return policy.decider == DeciderKind::kSwitch && policy.unit_policy == SPW_UNIT_HEADROOM;
}

bool IsRival(const PolicyChoice& policy) {
  const bool tuned = policy.unit_policy == SPW_UNIT_P4MITE && policy.trigger.tries.size() > 1;
  return !IsBound(policy) && !IsHeadroom(policy) && !tuned;
}

// The rows by point, and of each point the best of the rivals and of the bounds that do not lose there.
class Board {
 public:
  Board(const Scenario& scenario, const std::vector<Row>& rows) {
    for (const PolicyChoice& policy : scenario.policies) policies_[policy.name] = &policy;
    for (const Row& row : rows) {
      const auto policy = policies_.find(row.policy);
      if (policy == policies_.end()) continue;
      const bool bound = IsBound(*policy->second);
      if (!bound && !IsRival(*policy->second)) continue;
      Field& field = fields_[PointOf(row)];
      const Row*& best = bound ? field.bound : field.rival;
      if (!bound) field.rivals++;
      if (Loses(row)) continue;
      if (best == nullptr || row.result.p99_ms < best->result.p99_ms) best = &row;
    }
  }

  void Compare(const Row& row, Verdict& verdict) const {
    const auto found = fields_.find(PointOf(row));
    if (found == fields_.end()) return;
    const Field& field = found->second;
    if (field.rival != nullptr) {
      verdict.regrets.push_back({&row, field.rival, row.result.p99_ms / field.rival->result.p99_ms});
      if (Loses(row)) verdict.lost_alone.push_back(&row);
    } else if (field.rivals > 0) {
      (Loses(row) ? verdict.left_out : verdict.alone).push_back(&row);
    }
    if (field.bound != nullptr && !Loses(row))
      verdict.over_bound.push_back({&row, field.bound, row.result.p99_ms / field.bound->result.p99_ms});
  }

 private:
  struct Field {
    const Row *rival = nullptr, *bound = nullptr;
    size_t rivals = 0;  // losing ones included
  };
  std::map<std::string, const PolicyChoice*> policies_;
  std::map<Point, Field> fields_;
};

std::vector<Endurance> JudgeEndurance(const Scenario& scenario, const std::vector<Row>& rows) {
  std::map<std::tuple<std::string, std::string, std::string, std::string>, std::vector<const Row*>> lines;
  for (const Row& row : rows) lines[{row.app, row.arrivals, row.reports, row.policy}].push_back(&row);
  std::vector<Endurance> all;
  for (const App& app : scenario.apps)
    for (const Arrivals& arrivals : scenario.ArrivalsOf(app))
      for (const Reports& reports : scenario.ReportsOf(app))
        for (const PolicyChoice& policy : scenario.policies) {
          const auto line = lines.find({app.name, arrivals.name, reports.name, policy.name});
          if (line == lines.end()) continue;  // not reached
          all.push_back({app.name, arrivals.name, reports.name, policy.name, {}});
          Endurance& one = all.back();
          std::sort(line->second.begin(), line->second.end(),
                    [](const Row* a, const Row* b) { return a->axis < b->axis; });
          for (const Row* row : line->second) {
            if (Loses(*row)) break;
            one.sustained = row->axis;
          }
        }
  return all;
}

}  // namespace

bool Loses(const Row& row) { return row.result.loss > kToleratedLoss; }

const Comparison* Verdict::Worst(const std::vector<Comparison>& comparisons, const std::string& app) {
  const Comparison* worst = nullptr;
  for (const Comparison& one : comparisons) {
    if (!app.empty() && one.own->app != app) continue;
    if (worst == nullptr || one.ratio > worst->ratio) worst = &one;
  }
  return worst;
}

double Verdict::Regret(double percent) const {
  std::vector<double> ratios;
  for (const Comparison& one : regrets) ratios.push_back(one.ratio);
  return report::PercentileOf(std::move(ratios), percent);
}

std::vector<Comparison> Verdict::WorstRegrets(size_t count) const {
  std::vector<Comparison> worst = regrets;
  std::stable_sort(worst.begin(), worst.end(),
                   [](const Comparison& a, const Comparison& b) { return a.ratio > b.ratio; });
  worst.resize(std::min(count, worst.size()));
  return worst;
}

double Verdict::NearBound() const {
  if (over_bound.empty()) return 0;
  const auto near = std::count_if(over_bound.begin(), over_bound.end(),
                                  [](const Comparison& one) { return one.ratio <= kNearBound; });
  return static_cast<double>(near) / static_cast<double>(over_bound.size());
}

Findings Judge(const Scenario& scenario, const std::vector<Row>& rows) {
  Findings findings;
  findings.endurance = JudgeEndurance(scenario, rows);
  const Board board(scenario, rows);
  for (const PolicyChoice& policy : scenario.policies) {
    if (!IsHeadroom(policy)) continue;
    Verdict& verdict = findings.verdicts.emplace_back();
    verdict.policy = policy.name;
    for (const Row& row : rows)
      if (row.policy == policy.name) board.Compare(row, verdict);
  }
  return findings;
}

}  // namespace spillway::sim

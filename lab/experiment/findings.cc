// SPDX-License-Identifier: Apache-2.0
#include "findings.h"

#include <algorithm>

namespace spillway::lab {
namespace {

bool Answered(const Row& row, double tolerated_loss_pct) {
  return row.answered_pct.median >= 100 - tolerated_loss_pct;
}

const Row* Find(const std::vector<Row>& rows, const std::string& policy, double load_pct) {
  auto found = std::find_if(rows.begin(), rows.end(),
                            [&](const Row& row) { return row.policy == policy && row.load_pct == load_pct; });
  return found == rows.end() ? nullptr : &*found;
}

Verdict JudgeOne(const std::vector<Row>& rows, const std::string& policy, double tolerated_loss_pct) {
  std::vector<const Row*> own;
  for (const Row& row : rows)
    if (row.policy == policy) own.push_back(&row);
  std::sort(own.begin(), own.end(), [](const Row* a, const Row* b) { return a->load_pct < b->load_pct; });
  Verdict verdict;
  verdict.policy = policy;
  for (const Row* row : own) {
    if (!Answered(*row, tolerated_loss_pct)) continue;
    verdict.load_before_loss_pct = row->load_pct;
    verdict.rps_before_loss = row->rps.median;
  }
  for (const Row* row : own)
    if (!Answered(*row, tolerated_loss_pct) && row->load_pct < verdict.load_before_loss_pct)
      verdict.disturbed_pct.push_back(row->load_pct);
  return verdict;
}

}  // namespace

std::vector<Row> Summarise(const std::vector<Measurement>& rounds) {
  std::vector<Row> rows;
  for (const Measurement& m : rounds) {
    if (Find(rows, m.policy, m.load_pct) != nullptr) continue;
    std::vector<double> rps, p50, p99, answered;
    for (const Measurement& other : rounds) {
      if (other.policy != m.policy || other.load_pct != m.load_pct) continue;
      rps.push_back(other.rps);
      p50.push_back(other.p50_ms);
      p99.push_back(other.p99_ms);
      answered.push_back(other.answered_pct);
    }
    rows.push_back({m.policy, m.load_pct, report::SpreadOf(rps), report::SpreadOf(p50), report::SpreadOf(p99),
                    report::SpreadOf(answered), std::nullopt});
  }
  return rows;
}

bool AllLost(const std::vector<Row>& rows, double load_pct, double tolerated_loss_pct) {
  return std::none_of(rows.begin(), rows.end(), [&](const Row& row) {
    return row.load_pct == load_pct && Answered(row, tolerated_loss_pct);
  });
}

std::vector<Verdict> Judge(const std::vector<Row>& rows, double tolerated_loss_pct) {
  std::vector<Verdict> verdicts;
  for (const Row& row : rows) {
    if (std::any_of(verdicts.begin(), verdicts.end(),
                    [&](const Verdict& v) { return v.policy == row.policy; }))
      continue;
    verdicts.push_back(JudgeOne(rows, row.policy, tolerated_loss_pct));
    if (verdicts.size() == 1) continue;
    const Verdict& first = verdicts.front();
    Verdict& own = verdicts.back();
    if (first.rps_before_loss > 0 && own.rps_before_loss > 0)
      own.load_ratio = own.rps_before_loss / first.rps_before_loss;
    for (const Row& mine : rows) {
      const Row* theirs = mine.policy == own.policy ? Find(rows, first.policy, mine.load_pct) : nullptr;
      if (theirs == nullptr) continue;
      if (mine.p99_ms.median > theirs->p99_ms.median) own.p99_above_pct.push_back(mine.load_pct);
      if (mine.p99_ms.min > theirs->p99_ms.max) own.p99_clearly_above_pct.push_back(mine.load_pct);
    }
  }
  return verdicts;
}

Comparison Compare(const std::vector<Row>& rows, const std::string& policy, const std::string& other) {
  Comparison comparison{policy, other, {}, {}, {}};
  for (const Row& mine : rows) {
    const Row* theirs = mine.policy == policy ? Find(rows, other, mine.load_pct) : nullptr;
    if (theirs == nullptr) continue;
    const double p99 = mine.p99_ms.median;
    (p99 <= theirs->p99_ms.median ? comparison.at_or_below_pct
     : p99 <= theirs->p99_ms.max  ? comparison.within_band_pct
                                  : comparison.above_pct)
        .push_back(mine.load_pct);
  }
  return comparison;
}

std::optional<Accuracy> AccuracyOf(const std::vector<Row>& rows, const std::string& policy) {
  std::vector<double> p50, p99;
  for (const Row& row : rows) {
    if (row.policy != policy || !row.predicted) continue;
    if (row.predicted->p50_ms <= 0 || row.predicted->p99_ms <= 0) continue;
    p50.push_back(row.p50_ms.median / row.predicted->p50_ms);
    p99.push_back(row.p99_ms.median / row.predicted->p99_ms);
  }
  if (p50.empty()) return std::nullopt;
  return Accuracy{report::Median(p50), report::Median(p99)};
}

}  // namespace spillway::lab

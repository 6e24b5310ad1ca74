// SPDX-License-Identifier: Apache-2.0
#include "findings.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "report/percentile.h"

namespace spillway::lab {
namespace {

bool Answered(const Row& row, double tolerated_loss_pct) {
  return row.answered_pct >= 100 - tolerated_loss_pct;
}

SliceOutcome OutcomeOf(const Sample& sample, double limit_ms, double timeout_s) {
  SliceOutcome outcome;
  outcome.latencies_ms = sample.latencies_ms;
  outcome.in_time = static_cast<uint64_t>(
      std::upper_bound(sample.latencies_ms.begin(), sample.latencies_ms.end(), limit_ms) -
      sample.latencies_ms.begin());
  // An answer that came after the time-out, which clients check only now and then, counts as none.
  for (double& ms : outcome.latencies_ms) ms = std::min(ms, timeout_s * 1e3);
  outcome.latencies_ms.resize(sample.sent, timeout_s * 1e3);
  return outcome;
}

Row RowOf(const std::string& policy, double load_pct, const std::vector<Slice>& slices) {
  Row row;
  row.policy = policy;
  row.load_pct = load_pct;
  double seconds = 0, sent = 0, asked = 0, answers = 0, cpu_seconds = 0;
  for (const Slice& slice : slices) {
    row.slices++;
    row.replays += slice.replays;
    row.disturbed += slice.disturbance.disturbed();
    seconds += slice.sample.seconds;
    sent += static_cast<double>(slice.sample.sent);
    asked += slice.sample.asked;
    answers += static_cast<double>(slice.sample.latencies_ms.size());
    cpu_seconds += slice.CpuSeconds();
    if (!slice.sample.latencies_ms.empty())
      row.work.push_back({slice.units, std::min(1.0, static_cast<double>(slice.sample.latencies_ms.size()) /
                                                         static_cast<double>(slice.sample.sent))});
    if (slice.sample.late_p99_ms)
      row.late_p99_ms = std::max(row.late_p99_ms.value_or(0), *slice.sample.late_p99_ms);
  }
  for (const auto& slowness : SlownessOf(WorkOf(slices))) row.slow += slowness > kSlow;
  row.cpu_ms = answers > 0 ? 1e3 * cpu_seconds / answers : 0;
  row.rps = seconds > 0 ? sent / seconds : 0;
  row.sent_pct = asked > 0 ? 100 * sent / asked : 100;
  return row;
}

double MedianAnsweredPct(const std::vector<Slice>& slices, double limit_ms) {
  std::vector<double> answered;
  for (const Slice& slice : slices)
    if (slice.sample.sent > 0) answered.push_back(AnsweredPct(slice.sample, limit_ms));
  return answered.empty() ? std::nan("") : report::Median(std::move(answered));
}

// Of rows by ascending load: what each load answers if more load never answers more. Where the measured
// shares say otherwise, a lower load met bad moments of the machine or a higher one good moments, and nothing
// says which: such neighbours share their mean, by requests (isotonic regression).
std::vector<double> FallingPct(const std::vector<const Row*>& rows, double Row::*answered_pct) {
  struct Block {
    double answered, sent;  // answered: in hundredths
    size_t loads;
    [[nodiscard]] double Pct() const { return answered / sent; }
  };
  std::vector<Block> blocks;
  for (const Row* row : rows) {
    const double sent = std::max(row->rps, 1.0);  // slices of a sweep are equally many and equally long
    blocks.push_back({row->*answered_pct * sent, sent, 1});
    while (blocks.size() > 1 && blocks.back().Pct() > blocks[blocks.size() - 2].Pct()) {
      const Block last = blocks.back();
      blocks.pop_back();
      blocks.back().answered += last.answered;
      blocks.back().sent += last.sent;
      blocks.back().loads += last.loads;
    }
  }
  std::vector<double> falling;
  for (const Block& block : blocks) falling.insert(falling.end(), block.loads, block.Pct());
  return falling;
}

// Of a load x times what is worked off, requests are late by (x - 1) of the time since the slice began. So x,
// of what share is answered in time.
double Overload(double answered_pct, double grace) { return 1 + grace * 100 / answered_pct; }

Finding JudgeOne(const std::vector<Row>& rows, const std::string& policy, double tolerated_loss_pct,
                 double grace) {
  std::vector<const Row*> own;
  for (const Row& row : rows)
    if (row.policy == policy) own.push_back(&row);
  std::sort(own.begin(), own.end(), [](const Row* a, const Row* b) { return a->load_pct < b->load_pct; });
  Finding finding;
  finding.policy = policy;
  const double enough_pct = 100 - tolerated_loss_pct;
  const std::vector<double> all = FallingPct(own, &Row::answered_pct),
                            half = FallingPct(own, &Row::median_slice_answered_pct);
  for (size_t i = 0; i < own.size() && all[i] >= enough_pct; i++) {
    finding.sustained_pct = own[i]->load_pct;
    finding.sustained_rps = own[i]->rps;
  }
  for (size_t i = 0; i < own.size() && !finding.first_loss; i++) {
    const double load_pct = own[i]->load_pct;
    if (half[i] >= enough_pct) {
      finding.loses_from_pct = finding.all_answered_pct = load_pct;
      continue;
    }
    finding.first_loss = {load_pct, Overload(half[i], grace)};
    if (finding.loses_from_pct)
      finding.loses_from_pct =
          std::clamp(load_pct * Overload(enough_pct, grace) / finding.first_loss->overload,
                     finding.all_answered_pct, load_pct);
  }
  for (const Row* row : own) {
    if (!Answered(*row, tolerated_loss_pct) && row->load_pct < finding.sustained_pct)
      finding.disturbed_pct.push_back(row->load_pct);
    if (!row->baseline) continue;
    switch (row->baseline->p99.verdict) {
      case P99Verdict::kBetter:
        finding.better_pct.push_back(row->load_pct);
        break;
      case P99Verdict::kNoDifference:
        finding.same_pct.push_back(row->load_pct);
        break;
      case P99Verdict::kWorse:
        finding.worse_pct.push_back(row->load_pct);
        break;
      case P99Verdict::kHarmful:
        finding.harmful_pct.push_back(row->load_pct);
        break;
      case P99Verdict::kTooFewRounds:
        finding.unjudged_pct.push_back(row->load_pct);
        break;
    }
  }
  return finding;
}

}  // namespace

const Row* FindRow(const std::vector<Row>& rows, const std::string& policy, double load_pct) {
  auto found = std::find_if(rows.begin(), rows.end(),
                            [&](const Row& row) { return row.policy == policy && row.load_pct == load_pct; });
  return found == rows.end() ? nullptr : &*found;
}

std::vector<std::vector<UnitWork>> WorkOf(const std::vector<Slice>& slices) {
  std::vector<std::vector<UnitWork>> work;
  for (const Slice& slice : slices) work.push_back(slice.units);
  return work;
}

bool KeepWholeRounds(Level& level) {
  size_t whole = SIZE_MAX;
  for (const std::vector<Slice>& slices : level.slices) whole = std::min(whole, slices.size());
  for (std::vector<Slice>& slices : level.slices) slices.resize(whole);
  return whole > 0;
}

std::vector<Row> Summarise(const Level& level, size_t baseline, uint64_t seed, size_t loads) {
  std::vector<std::vector<SliceOutcome>> outcomes;
  for (const std::vector<Slice>& slices : level.slices) {
    outcomes.emplace_back();
    for (const Slice& slice : slices)
      outcomes.back().push_back(OutcomeOf(slice.sample, level.limit_ms, level.timeout_s));
  }
  const PairedBootstrap bootstrap(outcomes, seed, loads);
  std::vector<Row> rows;
  for (size_t i = 0; i < level.policies.size(); i++) {
    Row row = RowOf(level.policies[i], level.load_pct, level.slices[i]);
    row.p50_ms = bootstrap.PercentileMs(i, 50);
    row.p99_ms = bootstrap.PercentileMs(i, 99);
    row.p99_interval = bootstrap.P99Interval(i);
    row.answered_pct = bootstrap.AnsweredPct(i);
    row.median_slice_answered_pct = MedianAnsweredPct(level.slices[i], level.limit_ms);
    rows.push_back(std::move(row));
  }
  for (size_t i = 0; i < rows.size(); i++) {
    if (i != baseline) rows[i].baseline = Against{rows[baseline].policy, bootstrap.Compare(i, baseline)};
    std::optional<size_t> best;
    for (size_t other = 0; other < rows.size(); other++) {
      if (other == i) continue;
      const auto rank = [&](size_t at) { return std::make_pair(rows[at].p99_ms, -rows[at].answered_pct); };
      if (!best || rank(other) < rank(*best)) best = other;
    }
    if (best) rows[i].best = Against{rows[*best].policy, bootstrap.Compare(i, *best)};
  }
  return rows;
}

bool AllLost(const std::vector<Row>& rows, double load_pct, double tolerated_loss_pct) {
  return std::none_of(rows.begin(), rows.end(), [&](const Row& row) {
    return row.load_pct == load_pct && row.median_slice_answered_pct >= 100 - tolerated_loss_pct;
  });
}

std::optional<double> LoadRatio(const Finding& finding, const Finding& other) {
  if (!finding.loses_from_pct || !other.loses_from_pct) return std::nullopt;
  if (!finding.first_loss && !other.first_loss) return std::nullopt;
  if (finding.first_loss && other.first_loss && finding.first_loss->load_pct == other.first_loss->load_pct &&
      std::isfinite(finding.first_loss->overload) && std::isfinite(other.first_loss->overload))
    return other.first_loss->overload / finding.first_loss->overload;
  return *finding.loses_from_pct / *other.loses_from_pct;
}

std::vector<Finding> Judge(const std::vector<Row>& rows, const std::string& baseline,
                           double tolerated_loss_pct, double grace) {
  std::vector<Finding> findings;
  for (const Row& row : rows)
    if (std::none_of(findings.begin(), findings.end(),
                     [&](const Finding& finding) { return finding.policy == row.policy; }))
      findings.push_back(JudgeOne(rows, row.policy, tolerated_loss_pct, grace));
  const auto base = std::find_if(findings.begin(), findings.end(),
                                 [&](const Finding& finding) { return finding.policy == baseline; });
  for (Finding& finding : findings) {
    if (base != findings.end() && &finding != &*base) finding.over_baseline = LoadRatio(finding, *base);
    if (finding.loses_from_pct) finding.over_best = 1;
    for (const Finding& other : findings)
      if (finding.over_best && &other != &finding)
        finding.over_best = std::min(*finding.over_best, LoadRatio(finding, other).value_or(1));
  }
  return findings;
}

std::optional<Accuracy> AccuracyOf(const std::vector<Row>& rows, const std::string& policy) {
  std::vector<double> p50, p99;
  for (const Row& row : rows) {
    if (row.policy != policy || !row.predicted) continue;
    if (row.predicted->p50_ms <= 0 || row.predicted->p99_ms <= 0) continue;
    p50.push_back(row.p50_ms / row.predicted->p50_ms);
    p99.push_back(row.p99_ms / row.predicted->p99_ms);
  }
  if (p50.empty()) return std::nullopt;
  return Accuracy{report::Median(p50), report::Median(p99)};
}

}  // namespace spillway::lab

// SPDX-License-Identifier: Apache-2.0
#include "agreement.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace spillway::lab {

std::optional<double> P99OverPredicted(const Row& row) {
  if (!row.predicted || row.predicted->p99_ms <= 0 || row.p99_ms <= 0) return std::nullopt;
  return row.p99_ms / row.predicted->p99_ms;
}

std::optional<Agreement> AgreementOf(const std::vector<Row>& rows) {
  Agreement agreement;
  for (const Row& row : rows) {
    const auto ratio = P99OverPredicted(row);
    if (!ratio) continue;
    agreement.points++;
    if (*ratio > Agreement::kFactor || *ratio < 1 / Agreement::kFactor)
      agreement.deviations.push_back({row.policy, row.load_pct, *ratio});
    for (const Row& other : rows) {
      if (other.load_pct != row.load_pct || !P99OverPredicted(other)) continue;
      if (other.p99_ms <= row.p99_ms * Agreement::kFactor) continue;
      agreement.pairs++;
      if (row.predicted->p99_ms >= other.predicted->p99_ms)
        agreement.reversals.push_back({row.load_pct, row.policy, other.policy});
    }
  }
  if (agreement.points == 0) return std::nullopt;
  return agreement;
}

std::string AgreementText(const Agreement& agreement) {
  std::vector<std::string> deviations, reversals;
  for (const auto& one : agreement.deviations)
    deviations.push_back(fmt::format("{} at {:.0f} % ({:.2f})", one.policy, one.load_pct, one.ratio));
  for (const auto& one : agreement.reversals)
    reversals.push_back(fmt::format("{} below {} at {:.0f} %", one.lower, one.higher, one.load_pct));
  std::string text = fmt::format("Lab against simulator: p99 within a factor of {:g} at {} of {} points",
                                 Agreement::kFactor, agreement.within(), agreement.points);
  if (!deviations.empty())
    text += fmt::format("; not, measured over simulated: {}", fmt::join(deviations, ", "));
  text +=
      fmt::format(".\n  Order of policies, where measured p99 differ by more: the same for {} of {} pairs",
                  agreement.in_order(), agreement.pairs);
  if (!reversals.empty())
    text += fmt::format("; as measured, but not as simulated: {}", fmt::join(reversals, ", "));
  return text + ".\n";
}

}  // namespace spillway::lab

// SPDX-License-Identifier: Apache-2.0
#include "gateway/broker/service_time.h"

#include <algorithm>
#include <cmath>

namespace spillway::gateway {

void ServiceTime::Learn(int64_t rows, Duration reported, Duration measured, Duration work) {
  measured = std::max(measured, Duration(1));
  const auto x = static_cast<double>(rows);
  const auto y = static_cast<double>(std::clamp(reported, measured / kBelieved, measured).count());
  const double kept = 1 - 1.0 / kWindow;
  weight_ = weight_ * kept + 1;
  rows_ = rows_ * kept + x;
  ns_ = ns_ * kept + y;
  rows_rows_ = rows_rows_ * kept + x * x;
  rows_ns_ = rows_ns_ * kept + x * y;
  longest_ = std::max(measured, longest_ - longest_ / 8);
  learnt_at_ = work;
}

std::optional<ServiceTime::Duration> ServiceTime::Expect(int64_t rows, Duration work) const {
  if (weight_ == 0) return std::nullopt;
  const double mean_rows = rows_ / weight_, mean_ns = ns_ / weight_;
  const double spread = rows_rows_ / weight_ - mean_rows * mean_rows;
  // Requests of one size say nothing of others: those are taken to be in proportion.
  double per_row = mean_ns / mean_rows;
  if (spread > 1e-6 * mean_rows * mean_rows)
    per_row = std::clamp((rows_ns_ / weight_ - mean_rows * mean_ns) / spread, 0.0, per_row);
  const double ns = mean_ns + per_row * (static_cast<double>(rows) - mean_rows);
  return std::max(Duration(std::llround(ns)) - (work - learnt_at_) / kTrials, Duration(1));
}

}  // namespace spillway::gateway

// SPDX-License-Identifier: Apache-2.0
#include "arrivals.h"

#include <cmath>

namespace spillway::load {

Arrivals::Arrivals(Process process, double rate, std::uint64_t seed)
    : process_(process), gap_ns_(1e9 / rate), random_(seed) {}

std::int64_t Arrivals::NextNs() {
  ++count_;
  // From the count, not by adding gaps, so that rounding does not shift the rate.
  if (process_ == Process::kConstant) return std::llround(static_cast<double>(count_) * gap_ns_);
  const double uniform = static_cast<double>(random_() >> 11) * 0x1p-53;
  at_ns_ -= (process_ == Process::kBursty ? gap_ns_ / 2 : gap_ns_) * std::log1p(-uniform);
  const std::int64_t at = std::llround(at_ns_);
  return process_ == Process::kBursty ? at + at / kBurstNs * kBurstNs : at;
}

}  // namespace spillway::load

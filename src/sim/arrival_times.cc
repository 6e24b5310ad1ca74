// SPDX-License-Identifier: Apache-2.0
#include "sim/arrival_times.h"

#include <cmath>

namespace spillway::sim {

ArrivalTimes::ArrivalTimes(const Arrivals& arrivals, double rate_rps, uint64_t seed)
    : arrivals_(arrivals), gap_ns_(1e9 / rate_rps), random_(seed) {
  if (arrivals.kind != ArrivalKind::kTrace) return;
  // The trace is repeated after its last arrival and one mean gap.
  const double n = static_cast<double>(arrivals.at.size());
  const double span = arrivals.at.back() - arrivals.at.front();
  lap_ = n > 1 ? span * n / (n - 1) : 1;
  scale_ = n * gap_ns_ / lap_;
}

int64_t ArrivalTimes::Next() {
  switch (arrivals_.kind) {
    case ArrivalKind::kPoisson:
      now_ += gap_ns_ * random_.Exponential();
      break;
    case ArrivalKind::kConstant:
      now_ += gap_ns_;
      break;
    case ArrivalKind::kTrace:
      now_ = (arrivals_.at[next_] - arrivals_.at.front() + lap_ * static_cast<double>(laps_)) * scale_;
      if (++next_ == arrivals_.at.size()) next_ = 0, laps_++;
      break;
    case ArrivalKind::kOnOff:
      return static_cast<int64_t>(OnOff());
    case ArrivalKind::kJump:
      now_ = Jump();
      break;
    case ArrivalKind::kOverload:
      now_ += now_ < static_cast<double>(arrivals_.every.count()) ? gap_ns_ / arrivals_.times : gap_ns_;
      break;
  }
  return static_cast<int64_t>(now_);
}

// now_ counts the time that is on, in which all requests come; the time off is put in between.
double ArrivalTimes::OnOff() {
  const auto on = static_cast<double>(arrivals_.on.count()), off = static_cast<double>(arrivals_.off.count());
  now_ += gap_ns_ * on / (on + off) * random_.Exponential();
  return now_ + std::floor(now_ / on) * off;
}

// A Poisson process whose clock runs `low` times as fast while the load is low.
double ArrivalTimes::Jump() {
  const auto every = static_cast<double>(arrivals_.every.count());
  double time = now_;
  for (double gap = gap_ns_ * random_.Exponential();;) {
    const double turn = std::floor(time / every), end = (turn + 1) * every;
    const double speed = std::fmod(turn, 2) == 0 ? arrivals_.low : 1;
    if ((end - time) * speed >= gap) return time + gap / speed;
    gap -= (end - time) * speed;
    time = end;
  }
}

}  // namespace spillway::sim

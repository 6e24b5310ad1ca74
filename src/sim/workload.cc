// SPDX-License-Identifier: Apache-2.0
#include "sim/workload.h"

#include <algorithm>
#include <cmath>
#include <numbers>

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

namespace {

double NormalBelow(double z) { return 0.5 * std::erfc(-z / std::numbers::sqrt2); }

// Inverse of NormalBelow by bisection and Newton: only called to fill a table and in the tails.
double NormalQuantile(double p) {
  double low = -40, high = 40;
  for (int i = 0; i < 60; i++) {
    const double middle = (low + high) / 2;
    (NormalBelow(middle) < p ? low : high) = middle;
  }
  return (low + high) / 2;
}

// Of i / cells, for all runs: bisection for each point would take longer than a short run does.
const std::vector<double>& NormalQuantiles(int cells) {
  static const std::vector<double> quantiles = [cells] {
    std::vector<double> z(static_cast<size_t>(cells));
    for (int i = 1; i < cells; i++)
      z[static_cast<size_t>(i)] = NormalQuantile(static_cast<double>(i) / cells);
    return z;
  }();
  return quantiles;
}

}  // namespace

ServiceTimes::ServiceTimes(Spread spread, double cv, const Bimodal& bimodal) : spread_(spread) {
  if (spread == Spread::kBimodal) {
    heavy_share_ = bimodal.heavy_share;
    light_ = 1 / (1 - heavy_share_ + heavy_share_ * bimodal.heavy_ratio);
    heavy_ = light_ * bimodal.heavy_ratio;
    mean_deviation_ = heavy_share_ * std::abs(heavy_ - 1) + (1 - heavy_share_) * std::abs(light_ - 1);
    return;
  }
  if (spread == Spread::kExponential) {
    mean_deviation_ = 2 / std::numbers::e;
  } else {
    sigma_ = std::sqrt(std::log1p(cv * cv));
    mean_deviation_ = 2 * (2 * NormalBelow(sigma_ / 2) - 1);
    if (sigma_ == 0) return;
  }
  const int cells = 1 << kBits;
  table_.resize(static_cast<size_t>(cells) + 1);
  for (int i = 1; i < cells; i++) {
    const auto at = static_cast<size_t>(i);
    table_[at] = spread == Spread::kExponential ? Quantile(static_cast<double>(i) / cells)
                                                : AtNormal(NormalQuantiles(cells)[at]);
  }
}

double ServiceTimes::Quantile(double q) const {
  if (spread_ == Spread::kExponential) return -std::log1p(-q);
  return AtNormal(NormalQuantile(q));
}

double ServiceTimes::AtNormal(double z) const { return std::exp(sigma_ * z - sigma_ * sigma_ / 2); }

void ServiceTimes::FixHeavyAmong(uint64_t requests) {
  fixed_left_ = requests;
  heavy_left_ = static_cast<uint64_t>(std::llround(heavy_share_ * static_cast<double>(requests)));
}

bool ServiceTimes::DrawHeavy(Random& random) {
  if (fixed_left_ == 0) return random.Uniform() <= heavy_share_;
  // Each order of those that are left is as likely as any other.
  const bool heavy =
      random.Uniform() * static_cast<double>(fixed_left_--) <= static_cast<double>(heavy_left_);
  heavy_left_ -= heavy;
  return heavy;
}

double ServiceTimes::Draw(Random& random) {
  if (spread_ == Spread::kBimodal) return DrawHeavy(random) ? heavy_ : light_;
  if (table_.empty()) return 1;
  const uint64_t bits = random.Bits();
  const size_t cell = bits >> (64 - kBits);
  const double within = static_cast<double>((bits << kBits) >> 11) * 0x1p-53;
  if (cell == 0 || cell == (size_t{1} << kBits) - 1) {
    const double q = (static_cast<double>(cell) + within) / (1 << kBits);
    return Quantile(std::clamp(q, 0x1p-60, 1 - 0x1p-53));
  }
  return table_[cell] + within * (table_[cell + 1] - table_[cell]);
}

}  // namespace spillway::sim

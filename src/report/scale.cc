// SPDX-License-Identifier: Apache-2.0
#include "scale.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace spillway::report {

namespace {

constexpr int kTicksWanted = 6;

// The least of 1, 2, 5 times a power of ten that is not below `raw`.
double NiceStep(double raw) {
  const double power = std::pow(10, std::floor(std::log10(raw)));
  for (double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= raw * (1 - 1e-9)) return factor * power;
  }
  return 10 * power;
}

// The 1-2-5 number at or below (above) `value`.
double NiceBelow(double value) {
  const double power = std::pow(10, std::floor(std::log10(value) + 1e-9));
  for (double factor : {5.0, 2.0}) {
    if (factor * power <= value * (1 + 1e-9)) return factor * power;
  }
  return power;
}

double NiceAbove(double value) { return NiceStep(value); }

}  // namespace

Scale::Scale(const Axis& axis, double low, double high) : log_(axis.log) {
  min_ = axis.min.value_or(low);
  max_ = axis.max.value_or(high);
  if (log_) {
    if (!(min_ > 0)) min_ = max_ > 0 ? max_ / 10 : 1;
    if (!(max_ > min_)) {
      min_ /= 2;
      max_ = min_ * 4;
    }
    if (!axis.min) min_ = NiceBelow(min_);
    if (!axis.max) max_ = NiceAbove(max_);
    // Sparse enough to read: 1-2-5 over few decades, every n-th decade over many.
    const double decades = std::log10(max_ / min_);
    const int stride = std::max(1, static_cast<int>(std::ceil(decades / 8)));
    for (int power = static_cast<int>(std::floor(std::log10(min_))); power <= std::ceil(std::log10(max_));
         ++power) {
      for (double factor : {1.0, 2.0, 5.0}) {
        if (factor != 1 && decades > 2.5) continue;
        if (power % stride != 0) continue;
        const double tick = factor * std::pow(10, power);
        if (tick >= min_ * (1 - 1e-9) && tick <= max_ * (1 + 1e-9)) ticks_.push_back(tick);
      }
    }
    return;
  }
  if (!(max_ > min_)) {
    const double middle = min_;
    const double reach = middle == 0 ? 1 : std::fabs(middle) * 0.5;
    min_ = axis.min ? *axis.min : middle - reach;
    max_ = std::max(middle, min_) + reach;
  }
  step_ = NiceStep((max_ - min_) / kTicksWanted);
  if (!axis.min) min_ = std::floor(min_ / step_ + 1e-9) * step_;
  if (!axis.max) max_ = std::ceil(max_ / step_ - 1e-9) * step_;
  for (double i = std::ceil(min_ / step_ - 1e-9); i * step_ <= max_ + 1e-9 * step_; ++i)
    ticks_.push_back(i * step_);
}

bool Scale::Defined(double value) const { return std::isfinite(value) && (!log_ || value > 0); }

double Scale::Position(double value) const {
  if (log_) return std::log(value / min_) / std::log(max_ / min_);
  return (value - min_) / (max_ - min_);
}

std::string Scale::Label(double tick) const {
  const double largest = std::max(std::fabs(min_), std::fabs(max_));
  double divisor = 1;
  const char* suffix = "";
  // A log axis spans magnitudes, so each tick has its own suffix; a linear one shares the largest's.
  const double judge = log_ ? std::fabs(tick) : largest;
  const bool big = largest >= 10000;
  for (const auto& [from, name] : {std::pair{1e9, "G"}, std::pair{1e6, "M"}, std::pair{1e3, "k"}}) {
    if (big && judge >= from) {
      divisor = from;
      suffix = name;
      break;
    }
  }
  const double shown = tick / divisor;
  if (shown == 0 || std::fabs(tick) < step_ * 1e-6) return "0";
  const double grain = log_ ? std::fabs(shown) : step_ / divisor;
  const int decimals = std::clamp(static_cast<int>(-std::floor(std::log10(grain) + 1e-9)), 0, 9);
  if (grain < 1e-9) return fmt::format("{:.0e}{}", shown, suffix);
  return fmt::format("{:.{}f}{}", shown, decimals, suffix);
}

}  // namespace spillway::report

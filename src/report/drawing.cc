// SPDX-License-Identifier: Apache-2.0
#include "report/drawing.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "table.h"

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

namespace {

// Told apart by most colour-blind readers, each with at least 4.5:1 contrast on its background.
struct Colour {
  const char* light;
  const char* dark;
};
constexpr Colour kColours[kDrawingColours] = {
    {"#0b5fa5", "#6cb4f5"}, {"#b8450f", "#ff9a6b"}, {"#14734f", "#57c79a"}, {"#7d3f98", "#d0a0ea"},
    {"#7a5c00", "#e3c04d"}, {"#a3225f", "#f58ab8"}, {"#3f5b66", "#a9c1cc"}, {"#4b4b4b", "#cfcfcf"}};

}  // namespace

std::string DrawingStyle() {
  std::string css =
      ".spw-chart{font:12px system-ui,-apple-system,'Segoe UI','DejaVu Sans',sans-serif}"
      ".spw-chart text{fill:#2b2f33}.spw-chart .spw-title{font-size:15px;font-weight:600}"
      ".spw-chart .spw-note{fill:#5b636b}.spw-chart .spw-ground{fill:#fff}"
      ".spw-chart .spw-grid{stroke:#e1e5e9;stroke-width:1}.spw-chart "
      ".spw-frame{stroke:#8a939b;stroke-width:1}"
      ".spw-chart .spw-line{fill:none;stroke-width:2;stroke-linejoin:round;stroke-linecap:round}"
      ".spw-chart .spw-band{stroke:none;fill-opacity:.17}.spw-chart .spw-open{fill:#fff;stroke-width:1.6}"
      ".spw-chart .spw-loss{fill:none;stroke-width:2.4;stroke-linecap:round}"
      ".spw-chart .spw-neutral{stroke:#4b4b4b}";
  std::string dark =
      ".spw-chart text{fill:#e4e7ea}.spw-chart .spw-note{fill:#a5adb5}.spw-chart .spw-ground{fill:#16191d}"
      ".spw-chart .spw-grid{stroke:#2c3238}.spw-chart .spw-frame{stroke:#7c858d}"
      ".spw-chart .spw-open{fill:#16191d}.spw-chart .spw-neutral{stroke:#cfcfcf}";
  for (std::size_t i = 0; i < std::size(kColours); ++i) {
    constexpr const char* kRule = ".spw-chart .spw-s{0}{{stroke:{1}}}.spw-chart .spw-f{0}{{fill:{1}}}";
    css += fmt::format(fmt::runtime(kRule), i, kColours[i].light);
    dark += fmt::format(fmt::runtime(kRule), i, kColours[i].dark);
  }
  return fmt::format("<style>{}@media (prefers-color-scheme:dark){{{}}}</style>\n", css, dark);
}

std::string TicksBelow(const Scale& scale, double left, double right, double top, double bottom) {
  std::string out;
  double free_from = 0;  // ticks whose label would touch the one before go unlabelled
  for (const double tick : scale.ticks()) {
    const std::string label = scale.Label(tick);
    const double x = left + scale.Position(tick) * (right - left);
    const double half = static_cast<double>(label.size()) * kCharWidth / 2;
    out += fmt::format("<path class=\"spw-grid\" d=\"M{0:.1f} {1:.1f}V{2:.1f}\"/>\n", x, top, bottom);
    if (x - half < free_from) continue;
    out += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">{}</text>\n", x, bottom + 18,
                       label);
    free_from = x + half + 6;
  }
  return out;
}

std::string AxisTitle(const Axis& axis) {
  if (axis.unit.empty()) return EscapeHtml(axis.title);
  return EscapeHtml(fmt::format("{} [{}]", axis.title, axis.unit));
}

}  // namespace spillway::report

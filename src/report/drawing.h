// SPDX-License-Identifier: Apache-2.0
// What all drawings share: axes and their scales, colours, fonts. SVG text; pure.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace spillway::report {

// One axis of a chart: which values it shows, where they lie, and where its ticks are. Pure values.
struct Axis {
  std::string title;               // "Offered load"
  std::string unit;                // "requests/s"; empty: a plain number
  bool log = false;                // values <= 0 cannot be shown and leave a gap
  std::optional<double> min = {};  // default: from the data, extended to the next tick
  std::optional<double> max = {};
};

class Scale {
 public:
  // Covers [low, high] of the data, which are finite (and positive when axis.log). An empty or inverted
  // range is widened so that everything stays defined.
  Scale(const Axis& axis, double low, double high);

  // Can `value` be placed at all (finite, positive on a log axis)?
  [[nodiscard]] bool Defined(double value) const;
  // 0 at the axis' start, 1 at its end; outside for values beyond. value must be Defined.
  [[nodiscard]] double Position(double value) const;

  [[nodiscard]] double min() const { return min_; }
  [[nodiscard]] double max() const { return max_; }
  [[nodiscard]] const std::vector<double>& ticks() const { return ticks_; }  // labelled
  // "0.5", "20k": short, one style for the whole axis.
  [[nodiscard]] std::string Label(double tick) const;

 private:
  bool log_;
  double min_, max_;
  double step_ = 0;  // between linear ticks
  std::vector<double> ticks_;
};

inline constexpr std::size_t kDrawingColours = 8;  // classes spw-s0 ... (stroke) and spw-f0 ... (fill)
inline constexpr double kCharWidth = 6.7;          // generous mean at 12 px: labels must not collide

// A <style> element for what is inside of an <svg class="spw-chart">, light or dark by the viewer's
// preference.
[[nodiscard]] std::string DrawingStyle();
// The x axis' grid from `top` to `bottom`, and its labels below; from `left` to `right` the scale is shown.
[[nodiscard]] std::string TicksBelow(const Scale& scale, double left, double right, double top,
                                     double bottom);
// "Offered load [requests/s]", escaped.
[[nodiscard]] std::string AxisTitle(const Axis& axis);

}  // namespace spillway::report

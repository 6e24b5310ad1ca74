// SPDX-License-Identifier: Apache-2.0
#include "chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "drawing.h"
#include "table.h"

namespace spillway::report {

namespace {

constexpr std::size_t kMaxMarkedPoints = 60;  // beyond, marks would hide the line
constexpr double kLegendRow = 20;
constexpr double kBleed = 2;  // lines along the plot's edge keep their whole width

std::string WithUnit(double value, const Axis& axis) {
  return FormatNumber(value) + (axis.unit.empty() ? "" : " " + axis.unit);
}

// The mark of series i, centred on (x, y).
std::string Mark(std::size_t i, double x, double y, const std::string& tooltip) {
  const std::size_t colour = i % kDrawingColours;
  std::string shape;
  switch (i % 4) {
    case 0:
      shape = fmt::format("<circle class=\"spw-f{}\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3.6\">", colour, x, y);
      break;
    case 1:
      shape = fmt::format("<rect class=\"spw-f{}\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"7\" height=\"7\">",
                          colour, x - 3.5, y - 3.5);
      break;
    case 2:
      shape = fmt::format("<path class=\"spw-f{}\" d=\"M{:.1f} {:.1f}l4.4 7.6h-8.8z\">", colour, x, y - 5);
      break;
    default:
      shape = fmt::format("<path class=\"spw-f{}\" d=\"M{:.1f} {:.1f}l4.8 4.8-4.8 4.8-4.8-4.8z\">", colour, x,
                          y - 4.8);
  }
  const std::string tag = i % 4 == 0 ? "circle" : i % 4 == 1 ? "rect" : "path";
  return shape + (tooltip.empty() ? "" : "<title>" + tooltip + "</title>") + "</" + tag + ">\n";
}

std::string Cross(const std::string& colour_class, double x, double y, const std::string& tooltip) {
  return fmt::format("<path class=\"spw-loss {}\" d=\"M{:.1f} {:.1f}l10 10m0 -10l-10 10\">{}</path>\n",
                     colour_class, x - 5, y - 5, tooltip.empty() ? "" : "<title>" + tooltip + "</title>");
}

// The data's extent along one axis, as far as that axis can show it.
struct Extent {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();
  void Add(double value, const Axis& axis) {
    if (!std::isfinite(value) || (axis.log && value <= 0)) return;
    low = std::min(low, value);
    high = std::max(high, value);
  }
  [[nodiscard]] Scale ScaleFor(const Axis& axis) const {
    return low <= high ? Scale(axis, low, high) : Scale(axis, axis.log ? 1 : 0, axis.log ? 10 : 1);
  }
};

class Drawing {
 public:
  explicit Drawing(const Chart& chart)
      : chart_(chart), x_(ExtentOf(true).ScaleFor(chart.x)), y_(ExtentOf(false).ScaleFor(chart.y)) {
    for (const Series& series : chart.series)
      any_loss_ = any_loss_ || std::any_of(series.points.begin(), series.points.end(),
                                           [](const Point& point) { return point.loss; });
  }

  std::string Render() {
    std::string body = Head();
    body += Legend();
    top_ += 30;  // the y axis' title stands above its axis, where it reads without turning the head
    std::size_t widest = 0;
    for (double tick : y_.ticks()) widest = std::max(widest, y_.Label(tick).size());
    left_ = std::max(44.0, 18 + static_cast<double>(widest) * kCharWidth);
    right_ = chart_.width - 24;
    bottom_ = chart_.height - 48;
    body += Axes();
    body += Lines();
    body += Marks();
    return fmt::format(
               "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"spw-chart\" viewBox=\"0 0 {0} {1}\" "
               "width=\"{0}\" height=\"{1}\" role=\"img\" aria-label=\"{2}\">\n",
               chart_.width, chart_.height, EscapeHtml(chart_.title)) +
           DrawingStyle() +
           fmt::format("<rect class=\"spw-ground\" width=\"{}\" height=\"{}\" rx=\"6\"/>\n", chart_.width,
                       chart_.height) +
           body + "</svg>\n";
  }

 private:
  [[nodiscard]] Extent ExtentOf(bool x) const {
    Extent extent;
    for (const Series& series : chart_.series) {
      for (const Point& point : series.points) {
        if (x) {
          extent.Add(point.x, chart_.x);
          continue;
        }
        extent.Add(point.y, chart_.y);
        extent.Add(point.low, chart_.y);
        extent.Add(point.high, chart_.y);
      }
    }
    // A linear axis from 0 unless the data lies far from it: differences are then read in proportion.
    const Axis& axis = x ? chart_.x : chart_.y;
    if (!axis.log && extent.low > 0 && extent.low < 0.5 * extent.high) extent.low = 0;
    return extent;
  }

  std::string Head() {
    std::string out =
        fmt::format("<text class=\"spw-title\" x=\"16\" y=\"26\">{}</text>\n", EscapeHtml(chart_.title));
    top_ = 36;
    if (!chart_.note.empty()) {
      out += fmt::format("<text class=\"spw-note\" x=\"16\" y=\"44\">{}</text>\n", EscapeHtml(chart_.note));
      top_ = 54;
    }
    return out;
  }

  std::string Legend() {
    std::string out;
    double x = 16;
    double y = top_ + 10;
    const auto place = [&](const std::string& name) {
      const double width = 34 + static_cast<double>(name.size()) * kCharWidth + 14;
      if (x > 16 && x + width > chart_.width - 16) {
        x = 16;
        y += kLegendRow;
      }
      const double at = x;
      x += width;
      out += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\">{}</text>\n", at + 34, y + 4, EscapeHtml(name));
      return at;
    };
    for (std::size_t i = 0; i < chart_.series.size(); ++i) {
      const double at = place(chart_.series[i].name);
      out += fmt::format("<path class=\"spw-line spw-s{}\"{} d=\"M{:.1f} {:.1f}h26\"/>\n",
                         Look(i) % kDrawingColours, Dash(i), at, y);
      out += Mark(Look(i), at + 13, y, "");
    }
    if (any_loss_) {
      const double at = place(chart_.loss_label);
      out += Cross("spw-neutral", at + 13, y, "");
    }
    top_ = y + 12;
    return out;
  }

  // Whose colour and mark series i has.
  [[nodiscard]] std::size_t Look(std::size_t i) const {
    const int like = chart_.series[i].like;
    return like < 0 ? i : static_cast<std::size_t>(like);
  }

  [[nodiscard]] const char* Dash(std::size_t i) const {
    if (chart_.series[i].dashed) return " stroke-dasharray=\"7 5\"";
    return Look(i) >= kDrawingColours ? " stroke-dasharray=\"2 4\"" : "";
  }

  std::string Axes() {
    std::string out = fmt::format("<text x=\"16\" y=\"{:.1f}\">{}</text>\n", top_ - 14, AxisTitle(chart_.y));
    for (double tick : y_.ticks()) {
      out += fmt::format(
          "<path class=\"spw-grid\" d=\"M{:.1f} {:.1f}H{:.1f}\"/><text x=\"{:.1f}\" y=\"{:.1f}\" "
          "text-anchor=\"end\">{}</text>\n",
          left_, Y(tick), right_, left_ - 8, Y(tick) + 4, y_.Label(tick));
    }
    out += TicksBelow(x_, left_, right_, top_, bottom_);
    out += fmt::format("<path class=\"spw-frame\" fill=\"none\" d=\"M{0:.1f} {1:.1f}V{2:.1f}H{3:.1f}\"/>\n",
                       left_, top_, bottom_, right_);
    out += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">{}</text>\n",
                       (left_ + right_) / 2, bottom_ + 38, AxisTitle(chart_.x));
    return out;
  }

  // Lines and bands in a nested svg of the plot's own size, which clips them there without needing ids.
  std::string Lines() {
    std::string out = fmt::format(
        "<svg x=\"{0:.1f}\" y=\"{1:.1f}\" width=\"{2:.1f}\" height=\"{3:.1f}\" viewBox=\"{0:.1f} {1:.1f} "
        "{2:.1f} "
        "{3:.1f}\" overflow=\"hidden\">\n",
        left_ - kBleed, top_ - kBleed, right_ - left_ + 2 * kBleed, bottom_ - top_ + 2 * kBleed);
    for (std::size_t i = 0; i < chart_.series.size(); ++i) {
      std::string upper, lower, path;
      std::string bands;
      const auto close_band = [&] {
        if (!upper.empty()) bands += "M" + upper.substr(1) + lower + "z";
        upper.clear();
        lower.clear();
      };
      bool pen_down = false;
      for (const Point& point : chart_.series[i].points) {
        if (!x_.Defined(point.x) || !y_.Defined(point.y)) {
          pen_down = false;
          close_band();
          continue;
        }
        path += fmt::format("{}{:.1f} {:.1f}", pen_down ? "L" : "M", X(point.x), Y(point.y));
        pen_down = true;
        if (y_.Defined(point.low) && y_.Defined(point.high)) {
          upper += fmt::format("L{:.1f} {:.1f}", X(point.x), Y(point.high));
          lower.insert(0, fmt::format("L{:.1f} {:.1f}", X(point.x), Y(point.low)));
        } else {
          close_band();
        }
      }
      close_band();
      const std::size_t colour = Look(i) % kDrawingColours;
      if (!bands.empty()) out += fmt::format("<path class=\"spw-band spw-f{}\" d=\"{}\"/>\n", colour, bands);
      if (!path.empty())
        out += fmt::format("<path class=\"spw-line spw-s{}\"{} d=\"{}\"/>\n", colour, Dash(i), path);
    }
    return out + "</svg>\n";
  }

  std::string Marks() {
    std::string out;
    for (std::size_t i = 0; i < chart_.series.size(); ++i) {
      const Series& series = chart_.series[i];
      const std::string colour = fmt::format("spw-s{}", Look(i) % kDrawingColours);
      for (const Point& point : series.points) {
        if (!x_.Defined(point.x)) continue;
        const double across = x_.Position(point.x);
        if (across < -1e-6 || across > 1 + 1e-6) continue;
        std::string tip = fmt::format("{}: {} at {}", series.name,
                                      std::isfinite(point.y) ? WithUnit(point.y, chart_.y) : "no value",
                                      WithUnit(point.x, chart_.x));
        if (std::isfinite(point.low) && std::isfinite(point.high))
          tip += fmt::format(" ({} to {})", FormatNumber(point.low), FormatNumber(point.high));
        if (point.loss) tip += ", " + chart_.loss_label;
        tip = EscapeHtml(tip);
        const bool shown = y_.Defined(point.y);
        const double up = shown ? y_.Position(point.y) : 1;
        if (point.loss) {
          out += Cross(colour, X(point.x), std::clamp(YAt(up), top_, bottom_), tip);
        } else if (shown && (up > 1 + 1e-6 || up < -1e-6)) {
          out += fmt::format(
              "<path class=\"spw-open {}\" d=\"M{:.1f} {:.1f}l5 {}h-10z\"><title>{}</title></path>\n", colour,
              X(point.x), up > 1 ? top_ - 4 : bottom_ + 4, up > 1 ? 8 : -8, tip);
        } else if (shown && series.points.size() <= kMaxMarkedPoints) {
          out += Mark(Look(i), X(point.x), Y(point.y), tip);
        }
      }
    }
    return out;
  }

  [[nodiscard]] double X(double value) const { return left_ + x_.Position(value) * (right_ - left_); }
  [[nodiscard]] double YAt(double position) const { return bottom_ - position * (bottom_ - top_); }
  [[nodiscard]] double Y(double value) const { return YAt(y_.Position(value)); }

  const Chart& chart_;
  Scale x_, y_;
  bool any_loss_ = false;
  double left_ = 0, right_ = 0, top_ = 0, bottom_ = 0;
};

}  // namespace

std::string RenderSvg(const Chart& chart) { return Drawing(chart).Render(); }

}  // namespace spillway::report

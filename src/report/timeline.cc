// SPDX-License-Identifier: Apache-2.0
#include "timeline.h"

#include <fmt/format.h>

#include <algorithm>

#include "drawing.h"
#include "table.h"

namespace spillway::report {

std::string RenderSvg(const Timeline& timeline) {
  constexpr double kGap = 5;  // between lanes
  double first = timeline.bars.empty() ? 0 : timeline.bars.front().from, last = first, widest = 0;
  for (const Bar& bar : timeline.bars) {
    first = std::min(first, bar.from);
    last = std::max(last, bar.to);
  }
  for (const std::string& lane : timeline.lanes) widest = std::max(widest, static_cast<double>(lane.size()));
  const Scale scale(timeline.x, first, last);
  const double left = 24 + widest * kCharWidth, right = timeline.width - 24,
               top = timeline.note.empty() ? 44 : 60;
  const double step = timeline.lane_height + kGap,
               bottom = top + step * static_cast<double>(timeline.lanes.size());
  const int height = static_cast<int>(bottom) + 48;
  const auto x = [&](double value) { return left + scale.Position(value) * (right - left); };

  std::string body =
      fmt::format("<text class=\"spw-title\" x=\"16\" y=\"26\">{}</text>\n", EscapeHtml(timeline.title));
  if (!timeline.note.empty())
    body += fmt::format("<text class=\"spw-note\" x=\"16\" y=\"44\">{}</text>\n", EscapeHtml(timeline.note));
  body += TicksBelow(scale, left, right, top, bottom);
  for (std::size_t i = 0; i < timeline.lanes.size(); ++i) {
    const double under = top + step * static_cast<double>(i + 1) - kGap;
    body += fmt::format(
        "<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"end\">{}</text><path class=\"spw-grid\" d=\"M{:.1f} "
        "{:.1f}H{:.1f}\"/>\n",
        left - 8, under - timeline.lane_height / 2.0 + 4, EscapeHtml(timeline.lanes[i]), left, under, right);
  }
  for (const Bar& bar : timeline.bars) {
    const double under = top + step * static_cast<double>(bar.lane + 1) - kGap;
    body += fmt::format(
        "<rect class=\"spw-f{}\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" "
        "rx=\"2\"><title>{}</title></rect>\n",
        bar.colour % kDrawingColours, x(bar.from), under - bar.high * timeline.lane_height,
        std::max(0.5, x(bar.to) - x(bar.from)),
        std::max(0.5, (bar.high - bar.low) * timeline.lane_height - 1), EscapeHtml(bar.tip));
  }
  body += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">{}</text>\n",
                      (left + right) / 2, bottom + 38, AxisTitle(timeline.x));
  return fmt::format(
             "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"spw-chart\" viewBox=\"0 0 {0} {1}\" "
             "width=\"{0}\" "
             "height=\"{1}\" role=\"img\" aria-label=\"{2}\">\n",
             timeline.width, height, EscapeHtml(timeline.title)) +
         DrawingStyle() +
         fmt::format("<rect class=\"spw-ground\" width=\"{}\" height=\"{}\" rx=\"6\"/>\n", timeline.width,
                     height) +
         body + "</svg>\n";
}

}  // namespace spillway::report

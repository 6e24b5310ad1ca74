// SPDX-License-Identifier: Apache-2.0
#include "drawing.h"

#include <fmt/format.h>

#include <iterator>

#include "table.h"

namespace spillway::report {
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

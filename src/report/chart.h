// SPDX-License-Identifier: Apache-2.0
// Line and band charts as SVG text: log or linear axes, legend, loss marks, light and dark scheme by
// the viewer's preference, no external resources, no scripts. Pure; thread-safe.
#pragma once

#include <limits>
#include <string>
#include <vector>

#include "drawing.h"

namespace spillway::report {

struct Point {
  double x = 0;
  double y = 0;  // NaN: no value here, the line is interrupted
  // The band around y (the rounds' spread); NaN: none.
  double low = std::numeric_limits<double>::quiet_NaN();
  double high = std::numeric_limits<double>::quiet_NaN();
  bool loss = false;  // requests went unanswered: drawn as a cross (at the top edge where y is NaN)
};

struct Series {
  std::string name;
  std::vector<Point> points;  // in order of x
  bool dashed = false;        // for what is a reference or a model rather than a measurement
  int like = -1;              // takes colour and mark of the series at this place; -1: its own
};

struct Chart {
  std::string title;
  std::string note = {};  // one line under the title: how it was measured
  Axis x, y;
  std::vector<Series> series;
  std::string loss_label = "requests lost";  // what the cross means, in the legend
  int width = 760, height = 430;             // of the drawing; it scales to its container
};

// A whole <svg> element, usable as a file of its own and inside HTML. Points outside a fixed axis range
// are shown as open triangles at the edge. Colours repeat after eight series; marks and dashes still
// tell them apart.
[[nodiscard]] std::string RenderSvg(const Chart& chart);

}  // namespace spillway::report

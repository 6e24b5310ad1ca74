// SPDX-License-Identifier: Apache-2.0
// What was where and when, as SVG text: a lane per place, a bar per stay. Like charts, without scripts or
// external resources. Pure; thread-safe.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "drawing.h"

namespace spillway::report {

struct Bar {
  std::size_t lane = 0;
  double from = 0, to = 0;   // on the axis
  double low = 0, high = 1;  // of the lane's height, from below
  std::size_t colour = 0;    // repeats after eight
  std::string tip = {};      // shown while pointed at
};

struct Timeline {
  std::string title;
  std::string note = {};  // one line under the title
  Axis x;
  std::vector<std::string> lanes;  // from above
  std::vector<Bar> bars;
  int width = 760, lane_height = 26;
};

// A whole <svg> element.
[[nodiscard]] std::string RenderSvg(const Timeline& timeline);

}  // namespace spillway::report

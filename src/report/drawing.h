// SPDX-License-Identifier: Apache-2.0
// What all drawings share: colours, fonts, the words of an axis. SVG text; pure.
#pragma once

#include <cstddef>
#include <string>

#include "scale.h"

namespace spillway::report {

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

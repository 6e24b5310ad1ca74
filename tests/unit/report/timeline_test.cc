// SPDX-License-Identifier: Apache-2.0
#include "report/timeline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "xml_check.h"

namespace spillway::report {
namespace {

using ::testing::HasSubstr;

Timeline TwoLanes() {
  Timeline timeline;
  timeline.title = "Slices & <GPUs>";
  timeline.x = {.title = "Time", .unit = "h", .min = 0, .max = 10};
  timeline.lanes = {"host1/gpu0", "host1/gpu1"};
  timeline.bars = {{0, 0, 5, 0, 0.5, 0, "job0"}, {1, 5, 10, 0.5, 1, 9, "job1 & more"}};
  return timeline;
}

TEST(Timeline, IsWellFormedWithALanePerPlaceAndABarPerStay) {
  const std::string svg = RenderSvg(TwoLanes());
  EXPECT_EQ(XmlFault(svg), "") << svg;
  for (const char* text : {"host1/gpu0", "host1/gpu1", "Slices &amp; &lt;GPUs&gt;", "Time [h]",
                           "<title>job0</title>", "<title>job1 &amp; more</title>"})
    EXPECT_THAT(svg, HasSubstr(text));
}

// The second half of the axis is as wide as the first, and a bar of half a lane half as high as one.
TEST(Timeline, BarsStandWhereTheirTimeAndShareAre) {
  const std::string svg = RenderSvg(TwoLanes());
  const auto number = [&](const std::string& bar, const std::string& key) {
    const size_t at = svg.find("<rect class=\"" + bar + "\"");
    return std::stod(svg.substr(svg.find(" " + key + "=\"", at) + key.size() + 3));
  };
  EXPECT_NEAR(number("spw-f0", "width"), number("spw-f1", "width"), 0.2) << "colours repeat after eight";
  EXPECT_NEAR(number("spw-f0", "x") + number("spw-f0", "width"), number("spw-f1", "x"), 0.2);
  EXPECT_NEAR(number("spw-f0", "height"), 12, 0.1);
  EXPECT_NEAR(number("spw-f1", "y") - number("spw-f0", "y"), 31 - 13, 0.1)
      << "a lane lower, in its upper half";
}

TEST(Timeline, WithoutBarsIsStillADrawing) {
  Timeline timeline;
  timeline.lanes = {"a"};
  EXPECT_EQ(XmlFault(RenderSvg(timeline)), "");
}

}  // namespace
}  // namespace spillway::report

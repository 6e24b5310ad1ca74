// SPDX-License-Identifier: Apache-2.0
#include "report/progress.h"

#include <gtest/gtest.h>

namespace spillway::report {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using std::chrono::seconds;

struct Screen {
  std::string text;
  nanoseconds time{};
  Progress::Terminal Terminal(bool live, int width = 0) {
    return {[this](std::string_view written) { text += written; }, [this] { return time; }, live, width,
            seconds(10)};
  }
};

TEST(ProgressLine, ExtrapolatesTheTimeLeft) {
  EXPECT_EQ(ProgressLine("demo", 0.25, seconds(30), "load 50%", 0),
            "demo  25% [#####...............] 0:30 elapsed, 1:30 left  load 50%");
}

TEST(ProgressLine, SaysNothingAboutTheTimeLeftAtTheStartAndAtTheEnd) {
  EXPECT_EQ(ProgressLine("x", 0, seconds(5), "", 0).find("left"), std::string::npos);
  EXPECT_EQ(ProgressLine("x", 1, seconds(3725), "", 0), "x 100% [####################] 1:02:05 elapsed");
}

TEST(ProgressLine, IsCutToTheTerminalAtACodePoint) {
  EXPECT_EQ(ProgressLine("ÄÖÜ", 0.5, seconds(1), "", 2), "ÄÖ");
}

TEST(Progress, RedrawsOneLineInPlaceOnATerminal) {
  Screen screen;
  Progress progress("demo", screen.Terminal(true));
  progress.Update(0.5, "a");
  progress.Update(0.6, "a");  // the same instant: not drawn again
  screen.time = milliseconds(150);
  progress.Update(0.75, "a");
  progress.Finish("done");
  EXPECT_EQ(std::count(screen.text.begin(), screen.text.end(), '\r'), 3);
  EXPECT_EQ(screen.text.find('\n'), screen.text.size() - 1);
  EXPECT_EQ(screen.text.find("60%"), std::string::npos);
  EXPECT_NE(screen.text.find("100%"), std::string::npos);
}

TEST(Progress, TheBarNeverGoesBack) {
  Screen screen;
  Progress progress("demo", screen.Terminal(false));
  progress.Update(0.6, "first");
  progress.Update(0.4, "more was found to do");
  progress.Stop("over");
  EXPECT_EQ(screen.text.find("40%"), std::string::npos);
}

TEST(Progress, PrintsAPlainLineNowAndThenElsewhere) {
  Screen screen;
  Progress progress("demo", screen.Terminal(false));
  progress.Update(0.1, "one");
  for (int s = 1; s <= 25; ++s) {
    screen.time = seconds(s);
    progress.Tick();
  }
  EXPECT_EQ(std::count(screen.text.begin(), screen.text.end(), '\n'), 3);  // at 0, 10 and 20 s
  EXPECT_EQ(screen.text.find('\r'), std::string::npos);
  EXPECT_EQ(screen.text.find('\033'), std::string::npos);
}

TEST(Progress, ShowsANewMessageAtOnce) {
  Screen screen;
  Progress progress("demo", screen.Terminal(false));
  progress.Update(0.1, "one");
  progress.Update(0.1, "two");
  EXPECT_NE(screen.text.find("two"), std::string::npos);
}

TEST(Progress, EndsItsLiveLineWhenAbandoned) {
  Screen screen;
  { Progress("demo", screen.Terminal(true)).Update(0.5, ""); }
  EXPECT_EQ(screen.text.back(), '\n');
}

TEST(Progress, StoppedShowsHowFarItCame) {
  Screen screen;
  Progress progress("demo", screen.Terminal(false));
  progress.Update(0.25, "m");
  screen.text.clear();
  progress.Stop("interrupted");
  EXPECT_EQ(screen.text, "demo  25% [#####...............] 0:00 elapsed  interrupted\n");
  progress.Update(0.5, "m");
  EXPECT_EQ(screen.text.find("50%"), std::string::npos);
}

TEST(Progress, StepsAsideForOtherOutput) {
  Screen screen;
  Progress progress("demo", screen.Terminal(true));
  progress.Update(0.5, "m");
  screen.text.clear();
  progress.Around([&] { screen.text += "note\n"; });
  EXPECT_EQ(screen.text.find("\r\033[Knote\n\rdemo"), 0u);
}

TEST(Progress, ShowsNothingOfWhatEndsSoon) {
  Screen screen;
  Progress::Terminal terminal = screen.Terminal(true);
  terminal.silent_for = seconds(2);
  {
    Progress progress("demo", terminal);
    progress.Update(0.5, "a");
    screen.time = milliseconds(1999);
    progress.Finish("done");
  }
  EXPECT_EQ(screen.text, "");
  screen.time = {};
  Progress progress("demo", terminal);
  progress.Update(0.5, "a");
  screen.time = seconds(2);
  progress.Update(0.6, "a");
  EXPECT_NE(screen.text.find("60%"), std::string::npos);
  EXPECT_EQ(screen.text.find("50%"), std::string::npos);
}

}  // namespace
}  // namespace spillway::report

// SPDX-License-Identifier: Apache-2.0
// The agent's copy of what the switch believes, against the switch's own code.
#include "agent/learner/switch_view.h"

#include <gtest/gtest.h>

#include <random>

#include "core/load.h"
#include "core/policy.h"

namespace spillway::agent {
namespace {

using namespace std::chrono_literals;
using std::chrono::microseconds;

Learnt Unit(microseconds backlog) {
  Learnt learnt;
  learnt.base_us = 400;
  learnt.slot_ns = 300'000;
  learnt.knee_us = 300;
  learnt.backlog_us = static_cast<uint32_t>(backlog.count());
  return learnt;
}

TEST(SwitchView, IsWrongOnlyByMoreThanAQuarterOfAnUnqueuedLatency) {
  SwitchView view;
  view.Advance(10ms, 7, 0);
  view.Reported(Unit(2000us));
  view.Advance(11ms, 7, 0);
  EXPECT_FALSE(view.IsWrong(Unit(1000us), 0)) << "it drains by the clock";
  EXPECT_FALSE(view.IsWrong(Unit(1100us), 0));
  EXPECT_FALSE(view.IsWrong(Unit(900us), 0));
  EXPECT_TRUE(view.IsWrong(Unit(1101us), 0)) << "the unit is slower than that";
  EXPECT_TRUE(view.IsWrong(Unit(899us), 0));
  view.Advance(11ms, 8, 0);
  EXPECT_FALSE(view.IsWrong(Unit(1300us), 0)) << "the switch counts what it sends";
  view.Advance(20ms, 8, 0);
  EXPECT_FALSE(view.IsWrong(Unit(0us), 0));
  EXPECT_TRUE(view.IsWrong(Unit(101us), 0));
}

// A lone request is not known to the microsecond, and must not be reported for that.
TEST(SwitchView, LeavesOpenWhenRequestsCameSinceTheLastLook) {
  SwitchView view;
  view.Advance(10ms, 1, 0);
  view.Reported(Unit(0us));
  view.Advance(11ms, 2, 1);
  EXPECT_FALSE(view.IsWrong(Unit(0us), 0)) << "it came at once";
  EXPECT_FALSE(view.IsWrong(Unit(300us), 0)) << "it came just now";
  EXPECT_TRUE(view.IsWrong(Unit(401us), 0));
  EXPECT_FALSE(view.IsWrong(Unit(401us), 1)) << "the meter's clocks may lag by a request";
}

// Under a CPU quota both change while nobody waits.
TEST(SwitchView, IsWrongAboutACostOrASlotThatHasChangedByMoreThanAQuarter) {
  SwitchView view;
  Learnt told = Unit(0us);
  told.price_us = 1200;  // 1600 us with base
  view.Advance(10ms, 7, 0);
  view.Reported(told);
  view.Advance(11ms, 7, 0);
  const auto wrong = [&](uint32_t price_us, uint32_t slot_ns) {
    Learnt now = told;
    now.price_us = price_us;
    now.slot_ns = slot_ns;
    return view.IsWrong(now, 0);
  };
  EXPECT_FALSE(wrong(800, 300'000));
  EXPECT_TRUE(wrong(799, 300'000));
  EXPECT_FALSE(wrong(1733, 300'000));
  EXPECT_TRUE(wrong(1740, 300'000));
  EXPECT_FALSE(wrong(1200, 225'000));
  EXPECT_TRUE(wrong(1200, 224'999));
  EXPECT_TRUE(wrong(1200, 400'002));
}

// Against the switch's code, with requests that come evenly, but for a jitter, between two checks.
TEST(SwitchView, IsRightAboutASwitchThatIsWhateverTheRate) {
  std::mt19937 random(3);
  for (const int per_check : {1, 2, 3, 5}) {
    spw_server server{};
    server.unit[0].status = SPW_UNIT_UP;
    server.unit[0].weight = 1;
    spw_report report{};
    const Learnt told = Unit(0us);
    report.base_us = told.base_us;
    report.slot_ns = told.slot_ns;
    SwitchView view;
    std::chrono::nanoseconds now = 10s;
    spw_load_report(&server, 0, &report, 0, static_cast<uint64_t>(now.count()));
    view.Advance(now, 0, 0);
    view.Reported(told);
    uint64_t arrivals = 0;
    for (int check = 0; check < 500; check++) {
      for (int i = 0; i < per_check; i++) {
        const auto came = now + 1ms * (i + 1) / per_check - microseconds(random() % 100);
        spw_place_on(&server, SPW_UNIT_HEADROOM, 0, static_cast<uint64_t>(came.count()));
        arrivals++;
      }
      now += 1ms;
      view.Advance(now, arrivals, 1);
      const uint64_t ahead = spw_headroom_ahead(&server.load[0], static_cast<uint64_t>(now.count()));
      ASSERT_FALSE(view.IsWrong(Unit(microseconds(ahead / 1000)), 0)) << per_check << " a check, " << check;
    }
  }
}

TEST(SwitchView, IsComparedOftenWhileRequestsComeOrWait) {
  SwitchView view;
  view.Advance(10ms, 1, 1);
  EXPECT_EQ(view.NextCheck(1ms), 11ms);
  view.Advance(40ms, 1, 1);
  EXPECT_EQ(view.NextCheck(1ms), 41ms) << "one waits";
  view.Advance(59ms, 1, 0);
  EXPECT_EQ(view.NextCheck(1ms), 60ms);
  view.Advance(60ms, 1, 0);
  EXPECT_EQ(view.NextCheck(1ms), 80ms) << "nothing for 20 ms";
  EXPECT_EQ(view.NextCheck(50ms), 110ms);
  view.Advance(80ms, 2, 0);
  EXPECT_EQ(view.NextCheck(1ms), 81ms);
}

TEST(SwitchView, IsTheSwitchsOwnForWhatTheSwitchSends) {
  for (unsigned seed = 1; seed <= 200; seed++) {
    std::mt19937 random(seed);
    spw_server server{};
    server.unit[0].status = SPW_UNIT_UP;
    server.unit[0].weight = 1;
    SwitchView view;
    uint64_t arrivals = 0;
    std::chrono::nanoseconds now = 10s;
    spw_report report{};
    for (int step = 0; step < 300; step++) {
      now += microseconds(random() % 1500);
      if (step == 0 || random() % 8 == 0) {
        const Learnt told = Unit(microseconds(random() % 3000));
        report.base_us = told.base_us;
        report.slot_ns = told.slot_ns;
        report.knee_us = told.knee_us;
        report.backlog_us = told.backlog_us;
        report.completed = static_cast<uint32_t>(arrivals);
        spw_load_report(&server, 0, &report, 0, static_cast<uint64_t>(now.count()));
        view.Advance(now, arrivals, 0);
        view.Reported(told);
      }
      view.Advance(now, arrivals, 0);
      for (uint32_t more = random() % 4; more > 0; more--) {
        spw_place_on(&server, SPW_UNIT_HEADROOM, 0, static_cast<uint64_t>(now.count()));
        arrivals++;
      }
      view.Advance(now, arrivals, 0);
      const uint64_t ahead = spw_headroom_ahead(&server.load[0], static_cast<uint64_t>(now.count()));
      const microseconds believed(ahead / 1000);
      ASSERT_FALSE(view.IsWrong(Unit(believed), 0)) << "seed " << seed << " step " << step;
      ASSERT_TRUE(view.IsWrong(Unit(believed + 102us), 0)) << "seed " << seed << " step " << step;
      if (believed > 102us) {
        ASSERT_TRUE(view.IsWrong(Unit(believed - 102us), 0)) << "seed " << seed << " step " << step;
      }
    }
  }
}

}  // namespace
}  // namespace spillway::agent

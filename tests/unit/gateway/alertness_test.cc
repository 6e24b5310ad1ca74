// SPDX-License-Identifier: Apache-2.0
#include "gateway/alertness.h"

#include <gtest/gtest.h>

namespace spillway::gateway {
namespace {

using namespace std::chrono_literals;

// Whether it is awake, and if not, how long it may sleep, as its server asks.
struct View {
  bool awake;
  std::optional<Alertness::Duration> sleep;
  bool operator==(const View&) const = default;
};
View At(const Alertness& alertness, Alertness::Time now) {
  return {alertness.IsAwake(now), alertness.MaySleep(now)};
}
const View kAwake{true, std::nullopt}, kUntilRung{false, std::nullopt};
View For(Alertness::Duration sleep) { return {false, sleep}; }

TEST(Alertness, IsAwakeAboutTheExpectedEndAndAsleepBefore) {
  Alertness alertness(200us);
  alertness.Expect(10'000us);
  EXPECT_EQ(At(alertness, 9'500us), For(450us));
  EXPECT_EQ(At(alertness, 9'950us), kAwake);
  EXPECT_EQ(At(alertness, 10'149us), kAwake);
  EXPECT_EQ(At(alertness, 10'150us), kUntilRung) << "nobody knows how late it will be";
}

TEST(Alertness, OfWhatNothingIsKnownTheEndIsExpectedAtOnce) {
  Alertness alertness(200us);
  alertness.Expect(10'000us);  // when it was given to the slice
  EXPECT_EQ(At(alertness, 10'000us), kAwake);
}

TEST(Alertness, SleepsWhenNothingRuns) {
  Alertness alertness(200us);
  EXPECT_EQ(At(alertness, 1s), kUntilRung);
  alertness.Expect(1s);
  alertness.Expect(std::nullopt);
  EXPECT_EQ(At(alertness, 1s), kUntilRung);
}

TEST(Alertness, WithoutSpinItAlwaysSleepsUntilItIsRung) {
  Alertness alertness(0us);
  alertness.Expect(1s);
  for (const auto now : {Alertness::Time(999ms), Alertness::Time(1s), Alertness::Time(1001ms)})
    EXPECT_EQ(At(alertness, now), kUntilRung);
}

TEST(Alertness, WhereOthersTakeTheCpuForLongItSleepsForLonger) {
  Alertness alertness(20ms);
  alertness.Expect(1s);
  ASSERT_EQ(At(alertness, 1s), kAwake);
  alertness.Shared(1s, 1s + 100us);
  EXPECT_EQ(At(alertness, 1s + 100us), kAwake);
  alertness.Shared(1s, 1s + 200us);
  EXPECT_EQ(At(alertness, 1s + 200us), For(10ms));
  EXPECT_EQ(At(alertness, 1s + 10'200us), kAwake);
  alertness.Shared(1s, 1s + 1ms);
  EXPECT_EQ(At(alertness, 1s + 1ms), kUntilRung) << "the end is over by then";
}

}  // namespace
}  // namespace spillway::gateway

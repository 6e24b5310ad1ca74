// SPDX-License-Identifier: Apache-2.0
#include "scheduler/controller/node_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace spillway::scheduler {
namespace {

using testing::IsEmpty;

WantedInstance On(const std::string& gpu, uint64_t id) {
  WantedInstance one;
  one.instance = id;
  one.place.gpu = gpu;
  return one;
}

TEST(NodePlan, NothingIsMadeOnAGpuWhileSomethingEndsThere) {
  const std::vector<WantedInstance> wanted = {On("g0", 2), On("g1", 3)};
  std::vector<HostInstance> has = {{On("g0", 1), HostPhase::kRunning}};
  auto steps = Steps(wanted, has);
  ASSERT_EQ(steps.size(), 2u);
  EXPECT_EQ(steps[0].kind, Step::Kind::kEnd);
  EXPECT_EQ(steps[1].instance.instance, 3u);
  has[0].phase = HostPhase::kEnding;
  EXPECT_EQ(Steps(wanted, has).size(), 1u);
  has[0].phase = HostPhase::kSlice;
  EXPECT_EQ(Steps(wanted, has)[0].kind, Step::Kind::kDropSlice);
  EXPECT_EQ(Steps(wanted, {}).size(), 2u);
}

TEST(NodePlan, AnotherFleetsInstanceOfThatNumberEndsFirst) {
  WantedInstance other = On("g0", 1);
  other.model.name = "another";
  for (const WantedInstance& want : {other, On("g1", 1)}) {
    auto steps = Steps({want}, {{On("g0", 1), HostPhase::kRunning}});
    ASSERT_EQ(steps.size(), 1u);
    EXPECT_EQ(steps[0].kind, Step::Kind::kEnd);
    EXPECT_THAT(Steps({want}, {{On("g0", 1), HostPhase::kEnding}}), IsEmpty());
    steps = Steps({want}, {{On("g0", 1), HostPhase::kSlice}});
    ASSERT_EQ(steps.size(), 1u);
    EXPECT_EQ(steps[0].kind, Step::Kind::kDropSlice);
  }
}

TEST(NodePlan, WhatIsThereIsNotMadeAgainAndWhatFailedWaitsForTheController) {
  const std::vector<WantedInstance> wanted = {On("g0", 1)};
  EXPECT_EQ(Steps(wanted, {{On("g0", 1), HostPhase::kSlice}})[0].kind, Step::Kind::kStart);
  EXPECT_THAT(Steps(wanted, {{On("g0", 1), HostPhase::kRunning}}), IsEmpty());
  EXPECT_THAT(Steps(wanted, {{On("g0", 1), HostPhase::kFailed}}), IsEmpty());
  EXPECT_EQ(Steps({}, {{On("g0", 1), HostPhase::kFailed}})[0].kind, Step::Kind::kDropSlice);
}

}  // namespace
}  // namespace spillway::scheduler

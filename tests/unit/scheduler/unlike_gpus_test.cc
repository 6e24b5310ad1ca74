// SPDX-License-Identifier: Apache-2.0
// GPUs of other hosts, unlike those that are there: what they must not change for these.
#include <gtest/gtest.h>

#include "controller_bed.h"

namespace spillway::scheduler {
namespace {

TEST_F(ControllerTest, AHostOfManyKindsOfGpuTakesNoOthersPlace) {
  Host(1, 40960);
  std::vector<Gpu> many;
  for (int g = 0; g < 40; ++g) many.push_back({fmt::format("g{}", g), "A100-40", 1000 + g, true});
  controller_->HostSays("a", many, {}, 0, ++now_);
  ServedModel model = Model("m", 500);
  model.memory_mib = 8192;
  Add(model);
  ASSERT_EQ(instances(), 1u);
  EXPECT_EQ(Of("m", Phase::kStarting)->place.host, "h");
}

TEST_F(ControllerTest, ASmallGpuThatIsNotDividedMakesNoSliceLarger) {
  options_.rules.isolation = Isolation::kFraction;
  Make();
  Host(2, 40960);
  ServedModel model = Model("a", 250);
  model.memory_mib = 4096;
  Add(model);
  Obey();
  const auto before = Of("a", Phase::kReady)->place.profile;
  controller_->HostSays("k", {{"t4", "T4", 4096, false}}, {}, 0, ++now_);
  ASSERT_TRUE(controller_->MoveModel("a", "h/g1", now_));
  ASSERT_NE(Of("a", Phase::kStarting), nullptr);
  EXPECT_EQ(Of("a", Phase::kStarting)->place.profile, before);
}

}  // namespace
}  // namespace spillway::scheduler

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

TEST_F(ControllerTest, ASmallGpuMakesNoShareOfALargeOneLarger) {
  for (const Isolation isolation : {Isolation::kNone, Isolation::kGpu}) {
    options_.rules.isolation = isolation;
    Make();
    Host(1, 40960);
    ServedModel model = Model("a", 250);
    model.memory_mib = 4096;
    Add(model);
    Obey();
    controller_->HostSays("k", {{"t4", "T4", 4096, false}}, {}, 0, ++now_);
    model.replicas = 5;
    Add(model);
    ASSERT_EQ(instances(), 5u);
    std::map<std::string, int> milli, there;
    for (const auto& [id, one] : controller_->fleet().instances) {
      milli[one.place.host] += one.place.milli;
      ++there[one.place.host];
    }
    EXPECT_EQ(there["h"], 4) << "a quarter each";
    EXPECT_EQ(milli["h"], 1000);
    EXPECT_EQ(there["k"], 1);
    EXPECT_EQ(milli["k"], 1000) << "all of its memory";
  }
}

// Of its share that was enough where it is, and would not be there, it takes the whole of the small one.
TEST_F(ControllerTest, AMoveToASmallerGpuTakesTheLargerShareThere) {
  Host(1, 40960);
  ServedModel model = Model("a", 100);
  model.memory_mib = 4096;
  Add(model);
  Obey();
  controller_->HostSays("k", {{"t4", "T4", 8192, false}}, {}, 0, ++now_);
  EXPECT_EQ(Of("a", Phase::kReady)->place.milli, 100);
  ASSERT_TRUE(controller_->MoveModel("a", "k/t4", now_));
  EXPECT_EQ(Of("a", Phase::kStarting)->place.milli, 500);
}

TEST_F(ControllerTest, ASmallGpuThatIsDividedMakesNoSliceLarger) {
  options_.rules.isolation = Isolation::kFraction;
  Make();
  Host(1, 81920);
  controller_->HostSays("k", {{"a30", "A30", 24576, true}}, {}, 0, ++now_);
  ServedModel model = Model("a", 100);
  model.memory_mib = 20000;
  model.replicas = 3;
  Add(model);
  for (const auto& [id, one] : controller_->fleet().instances)
    if (one.place.host == "h") {
      EXPECT_EQ(*one.place.profile, Profile::k1gMem);
    }
  EXPECT_EQ(controller_->Wanted("h").size(), 3u);
}

}  // namespace
}  // namespace spillway::scheduler

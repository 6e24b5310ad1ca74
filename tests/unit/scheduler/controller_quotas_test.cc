// SPDX-License-Identifier: Apache-2.0
// Tenants' quotas: what counts, and what is refused.
#include <gtest/gtest.h>

#include "controller_bed.h"

namespace spillway::scheduler {
namespace {

TEST_F(ControllerTest, ATenantOverItsQuotaIsRefusedAndOthersAreNot) {
  options_.gpu_quotas = {{"red", 1.5}};
  Make();
  Host(4);
  ServedModel model = Model("a", 500);
  model.replicas = 2;
  Add(model);
  Add(Model("b", 500));
  const auto refused = controller_->AddModel(Model("c", 100), now_);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kConflict);
  EXPECT_EQ(refused.error().message, "model c: tenant red has a quota of 1.5 GPUs, and this makes 1.6");
  EXPECT_EQ(controller_->fleet().models.count("c"), 0u);
  Add(Model("c", 1000, "blue"));
  model.replicas = 3;
  EXPECT_FALSE(controller_->AddModel(model, now_)) << "more of the same";
  EXPECT_EQ(controller_->fleet().models.at("a").replicas, 2);
  model.replicas = 1;
  Add(model);
  Add(Model("d", 500));
}

TEST_F(ControllerTest, AQuotaCountsMemoryWhatStillEndsAndTenantsThatAreNotListed) {
  options_.gpu_quotas = {{"*", 1}};
  Make();
  Host(4, 40960);
  ServedModel large = Model("a", 1, "green");
  large.memory_mib = 30000;
  Add(large);
  large.name = "b";
  EXPECT_FALSE(controller_->AddModel(large, now_)) << "0.75 of each GPU's memory";
  Obey();
  ASSERT_TRUE(controller_->RemoveModel("a", now_));
  EXPECT_FALSE(controller_->AddModel(large, now_)) << "the first still ends";
  Obey();
  Obey();
  Add(large);
}

TEST_F(ControllerTest, AQuotaCountsWhatStillEndsOfAModelWhoseNameIsAnothersByNow) {
  options_.gpu_quotas = {{"red", 1}};
  Make();
  Host(4);
  Add(Model("a", 900));
  Obey();
  ASSERT_TRUE(controller_->RemoveModel("a", now_));
  EXPECT_EQ(controller_->AddModel(Model("a", 200), now_).error().message,
            "model a: tenant red has a quota of 1 GPUs, and this makes 1.1");
  Add(Model("a", 100));
  EXPECT_FALSE(controller_->AddModel(Model("b", 100), now_)) << "0.9 of the first a, 0.1 of the second";
  Obey();
  Obey();
  Add(Model("b", 900));
}

TEST_F(ControllerTest, AQuotaCountsWhatStillEndsByItsPartOfAGpusMemory) {
  options_.gpu_quotas = {{"red", 0.8}};
  options_.rules.isolation = Isolation::kFraction;
  Make();
  Host(2, 40960);
  ServedModel large = Model("a", 100);
  large.memory_mib = 20480;  // of a profile with 3 of 7 parts of the compute
  Add(large);
  Obey();
  ASSERT_TRUE(controller_->RemoveModel("a", now_));
  large.name = "b";
  EXPECT_EQ(controller_->AddModel(large, now_).error().message,
            "model b: tenant red has a quota of 0.8 GPUs, and this makes 0.857143");
}

TEST_F(ControllerTest, WhatIsServedWhenAQuotaIsMadeSmallerStaysAndMayShrink) {
  Host(4);
  ServedModel model = Model("a", 1000);
  model.replicas = 3;
  Add(model);
  options_.gpu_quotas = {{"red", 1}};
  Make(controller_->fleet());
  Obey();
  EXPECT_EQ(instances(), 3u);
  Add(model);
  model.replicas = 2;
  Add(model);
  EXPECT_EQ(controller_->AddModel(Model("b", 1), now_).error().code, ErrorCode::kConflict);
}

TEST_F(ControllerTest, WithoutSharingEveryReplicaCountsAsAWholeGpuOfTheQuota) {
  options_.gpu_quotas = {{"red", 1}};
  options_.rules.is_sharing = false;
  Make();
  Host(2);
  Add(Model("a", 250));
  EXPECT_FALSE(controller_->AddModel(Model("b", 250), now_));
}

}  // namespace
}  // namespace spillway::scheduler

// SPDX-License-Identifier: Apache-2.0
#include "gateway/broker/gpu_table.h"

#include <gtest/gtest.h>

namespace spillway::gateway {
namespace {

using namespace std::chrono_literals;

TEST(GpuTable, AUuidIsOneGpuWhereverItIsSaidAndANameOnlyOnItsHost) {
  EXPECT_EQ(GpuTable::IdentityOf("h1", "gpu0", "GPU-1"), GpuTable::IdentityOf("h2", "other", "GPU-1"));
  EXPECT_EQ(GpuTable::IdentityOf("h1", "gpu0", ""), GpuTable::IdentityOf("h1", "gpu0", ""));
  EXPECT_NE(GpuTable::IdentityOf("h1", "gpu0", ""), GpuTable::IdentityOf("h2", "gpu0", ""));
}

TEST(GpuTable, SlicesOfOneGpuHaveItsNumberAndItsBookWhoeverOffersThem) {
  GpuTable table(2);
  const uint32_t one = table.Join("GPU-1"), two = table.Join("GPU-2");
  ASSERT_NE(one, two);
  EXPECT_EQ(table.Join("GPU-1"), one);
  table.Charge(one, 0, 3ms);
  table.Charge(one, 1, 5ms);
  table.Charge(one, 1, 7ms);
  table.Leave(one);  // the other slice still is there
  EXPECT_EQ(table.Join("GPU-1"), one);
  EXPECT_EQ(table.gpus()[one].uses[0].time, 3ms);
  EXPECT_EQ(table.gpus()[one].uses[1].time, 12ms);
  EXPECT_EQ(table.gpus()[one].uses[1].requests, 2u);
  EXPECT_EQ(table.gpus()[two].uses[1].requests, 0u);
}

TEST(GpuTable, WhatHasNoSlicesIsForgotten) {
  GpuTable table(1);
  for (int i = 0; i < 1000; i++) {
    const uint32_t gpu = table.Join("GPU-" + std::to_string(i));
    EXPECT_EQ(table.gpus()[gpu].uses[0].requests, 0u) << "another's book";
    table.Charge(gpu, 0, 1ms);
    table.Leave(gpu);
  }
  EXPECT_EQ(table.gpus().size(), 1u);
}

}  // namespace
}  // namespace spillway::gateway

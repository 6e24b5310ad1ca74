// SPDX-License-Identifier: Apache-2.0
// Tests of the gateway's loop run awake between requests and asleep.
#pragma once

#include <gtest/gtest.h>

#include "gateway_bed.h"

namespace spillway::gateway {

// Its parameter: how long the gateway stays awake.
class ServerOver : public testing::TestWithParam<Duration> {
 protected:
  void SetUp() override { GatewayBed::spin = GetParam(); }
  void TearDown() override { GatewayBed::spin = GatewayConfig().spin; }
};

}  // namespace spillway::gateway

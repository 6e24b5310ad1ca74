// SPDX-License-Identifier: Apache-2.0
// Tests of the gateway's loop run over each way of doing its sockets' input and output.
#pragma once

#include <gtest/gtest.h>

#include "gateway_bed.h"

namespace spillway::gateway {

struct Way {
  Io io;
  Duration spin;
};

class ServerOver : public testing::TestWithParam<Way> {
 protected:
  void SetUp() override {
    GatewayBed::io = GetParam().io;
    GatewayBed::spin = GetParam().spin;
    if (GetParam().io != Io::kUring) return;
    if (const auto uring = MakeUringReactor(); !uring) GTEST_SKIP() << uring.error().message;
  }
  void TearDown() override {
    GatewayBed::io = GatewayConfig().io;
    GatewayBed::spin = GatewayConfig().spin;
  }
};

}  // namespace spillway::gateway

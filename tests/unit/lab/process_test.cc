// SPDX-License-Identifier: Apache-2.0
#include "lab/testbed/process.h"

#include <gtest/gtest.h>

namespace spillway::lab {
namespace {

// Who has built what ./demo needs, and no more, and then compares policies on a bed with other clients.
TEST(Process, OfAProgramOfOursThatWasNotBuiltItSaysHowToBuildIt) {
  StartOptions options;
  options.argv = {"/nowhere/bin/spillway-load", "--help"};
  const auto started = Start(options);
  ASSERT_FALSE(started);
  EXPECT_EQ(started.error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(started.error().message,
            "/nowhere/bin/spillway-load does not exist: build everything (cmake --build build/release)");
}

}  // namespace
}  // namespace spillway::lab

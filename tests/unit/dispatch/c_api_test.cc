// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

extern "C" int run_as_c(void);

namespace {

TEST(DispatchFromC, OpensEnqueuesDequeuesAndLeaves) { EXPECT_EQ(run_as_c(), 0) << "line of c_api_test.c"; }

}  // namespace

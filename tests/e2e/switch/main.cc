// SPDX-License-Identifier: Apache-2.0
// Ctrl-C lets the running test take its testbed down; the rest are skipped.
#include <gtest/gtest.h>

#include "base/signals.h"

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  const spillway::base::InterruptGuard guard;
  const int failed = RUN_ALL_TESTS();
  return spillway::base::Interrupted() ? 1 : failed;
}

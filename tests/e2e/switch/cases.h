// SPDX-License-Identifier: Apache-2.0
// What the end-to-end tests of the switch share: IP versions and modes as test parameters, conditions
// waited for, and the reasons to skip.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "core/policy.h"
#include "core/server.h"

namespace spillway::e2e {

// Polls until `condition` holds. False when `limit` is over first, or on Ctrl-C.
[[nodiscard]] bool Eventually(const std::function<bool()>& condition,
                              std::chrono::seconds limit = std::chrono::seconds(20));

// Empty, or why tests that need root and these programs cannot run here.
std::string WhyNot(const std::vector<std::string>& programs);

// "V4", "V6": names of the instances of tests over the IP version.
std::string FamilyName(const testing::TestParamInfo<int>& info);

}  // namespace spillway::e2e

#define SPW_SKIP_WITHOUT(...)                                                       \
  if (const std::string why = spillway::e2e::WhyNot({__VA_ARGS__}); !why.empty()) { \
    GTEST_SKIP() << why;                                                            \
  }                                                                                 \
  static_assert(true, "")

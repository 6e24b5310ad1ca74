// SPDX-License-Identifier: Apache-2.0
#include "lab/balancer/options.h"

#include <gtest/gtest.h>
#include <CLI/CLI.hpp>

#include "lab/balancer/frame_port.h"

namespace spillway::balancer {
namespace {

// Whether the command line is taken.
bool Takes(std::vector<std::string> more, Options& options, bool whole = true) {
  CLI::App app;
  AddOptions(app, options);
  if (whole)
    more.insert(more.end(), {"--pool", "p", "--service", "s", "--server", "s1", "--interface", "eth0",
                             "--front", "10.0.0.3"});
  std::reverse(more.begin(), more.end());  // as CLI11 wants them
  try {
    app.parse(more);
  } catch (const CLI::ParseError&) {
    return false;
  }
  return true;
}

TEST(BalancerOptions, AWholeCommandLineIsTaken) {
  Options options;
  ASSERT_TRUE(Takes({"--mac", "02:00:00:00:0a:0B", "--unit-policy", "jsq"}, options));
  EXPECT_EQ(options.mac, (Mac{2, 0, 0, 0, 10, 11}));
  EXPECT_EQ(options.choice.policy, SPW_UNIT_JSQ);
  EXPECT_EQ(options.choice.front.ToString(), "10.0.0.3");
}

TEST(BalancerOptions, WhatIsWrongOrMissingIsRefused) {
  Options options;
  EXPECT_FALSE(Takes({}, options)) << "no --mac";
  EXPECT_FALSE(Takes({"--mac", "02:00:00:00:00:01"}, options, false));
  EXPECT_FALSE(Takes({"--mac", "02:00:00:00:00:01", "--unit-policy", "best"}, options));
  EXPECT_FALSE(Takes({"--mac", "02:00:00:00:00:01", "--report-port", "0"}, options));
  EXPECT_FALSE(Takes({"--mac", "02:00:00:00:00:01", "--front", "10.0.0"}, options));
  for (const char* mac : {"", "02:00:00:00:00", "02:00:00:00:00:1", "02:00:00:00:00:01:", "02-00-00-00-00-01",
                          "01:00:5e:00:00:01", "zz:00:00:00:00:01"})
    EXPECT_FALSE(Takes({"--mac", mac}, options)) << mac;
}

TEST(FramePort, AnInterfaceThatIsNotThereIsBadInput) {
  const auto port = FramePort::Open("no-such-if", {2, 0, 0, 0, 0, 1});
  ASSERT_FALSE(port);
  EXPECT_EQ(port.error().code, ErrorCode::kBadInput);
}

}  // namespace
}  // namespace spillway::balancer

// SPDX-License-Identifier: Apache-2.0
#include "lab/unit/options.h"

#include <gtest/gtest.h>
#include <CLI/CLI.hpp>

namespace spillway::unit {
namespace {

Settings Parse(const std::string& line) {
  CLI::App app;
  Settings settings;
  AddOptions(app, settings);
  app.parse(line);
  return settings;
}

TEST(Options, FillEverySetting) {
  const Settings s = Parse(
      "--listen 127.0.0.1:53 --listen [::1]:53 --protocol udp --name s1/cpu --workers 4 --queue 9 --service "
      "250us "
      "--cv 0.5 --extra-latency 2ms --seed 3");
  ASSERT_EQ(s.listen.size(), 2u);
  EXPECT_EQ(s.listen[1].Text(), "[::1]:53");
  EXPECT_TRUE(s.udp);
  EXPECT_FALSE(s.tcp);
  EXPECT_EQ(s.name, "s1/cpu");
  EXPECT_EQ(s.workers, 4u);
  EXPECT_EQ(s.queue_limit, 9u);
  EXPECT_EQ(s.service, std::chrono::microseconds(250));
  EXPECT_EQ(s.distribution, Distribution::kLognormal);
  EXPECT_EQ(s.cv, 0.5);
  EXPECT_EQ(s.extra_latency, std::chrono::milliseconds(2));
  EXPECT_EQ(s.seed, 3u);
}

TEST(Options, ShowTheDefaultThatATimeHas) {
  CLI::App app;
  std::chrono::nanoseconds time = std::chrono::milliseconds(7);
  AddDuration(app, "--pause", time, "Between two");
  EXPECT_NE(app.help().find("--pause TIME=7ms"), std::string::npos) << app.help();
  app.parse("");
  EXPECT_EQ(time, std::chrono::milliseconds(7));
}

TEST(Options, LeaveWorkingDefaults) {
  const Settings s = Parse("--listen 127.0.0.1:53");
  EXPECT_TRUE(s.udp && s.tcp);
  EXPECT_EQ(s.distribution, Distribution::kConstant);
  EXPECT_EQ(s.service, std::chrono::milliseconds(1));
}

TEST(Options, AreCheckedOneByOneAndTogether) {
  const std::string at = "--listen 127.0.0.1:53 ";
  EXPECT_THROW(Parse(""), CLI::ParseError);
  EXPECT_THROW(Parse("--listen nowhere"), CLI::ParseError);
  EXPECT_THROW(Parse(at + "--workers 0"), CLI::ParseError);
  EXPECT_THROW(Parse(at + "--queue -1"), CLI::ParseError);
  EXPECT_THROW(Parse(at + "--service soon"), CLI::ParseError);
  EXPECT_THROW(Parse(at + "--distribution pareto"), CLI::ParseError);
  EXPECT_THROW(Parse(at + "--distribution lognormal"), CLI::ParseError);
  EXPECT_THROW(Parse(at + "--distribution exponential --cv 2"), CLI::ParseError);
  EXPECT_THROW(Parse(at + "--name 12345678901234567"), CLI::ParseError);
  EXPECT_THROW(Parse(at + "--protocol sctp"), CLI::ParseError);
}

}  // namespace
}  // namespace spillway::unit

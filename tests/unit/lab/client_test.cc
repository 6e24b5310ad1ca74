// SPDX-License-Identifier: Apache-2.0
#include "lab/experiment/client.h"

#include <gtest/gtest.h>

#include <sstream>

namespace spillway::lab {
namespace {

TEST(Dnsperf, OnlyAnswersWithoutErrorCount) {
  std::istringstream out(
      "> NOERROR h1.example.org A 0.004000\n> T h2.example.org A\n> SERVFAIL h3.example.org A 0.000100\n"
      "> NOERROR h4.example.org A 0.001000\n  Queries sent:         4\n  Run time (s):         2.000000\n");
  auto sample = ParseDnsperf(out);
  ASSERT_TRUE(sample) << sample.error().message;
  EXPECT_EQ(sample->sent, 4u);
  EXPECT_EQ(sample->latencies_ms, (std::vector<double>{1.0, 4.0}));
}

TEST(Dnsperf, OutputWithoutStatisticsIsRefused) {
  std::istringstream out("> NOERROR h1.example.org A 0.004000\n");
  EXPECT_FALSE(ParseDnsperf(out));
}

TEST(SpillwayLoad, LatencyCountsFromTheIntendedTimeAndWarmUpDoesNot) {
  std::istringstream csv(
      "intended_ns,sent_ns,received_ns,flow,unit,measured\n"
      "0,10,900000,0,s1-cpu,0\n"
      "1000000,3000000,5000000,1,s1-cpu,1\n"
      "2000000,2000000,3000000,2,s1-nic,1\n"
      "3000000,3000000,,3,,1\n");
  auto sample = ParseSamples(csv);
  ASSERT_TRUE(sample) << sample.error().message;
  EXPECT_EQ(sample->sent, 3u);
  EXPECT_EQ(sample->late_p99_ms, 2.0) << "how late the client was, the worst of three";
  EXPECT_EQ(sample->latencies_ms, (std::vector<double>{1.0, 4.0}));
}

TEST(SpillwayLoad, WhatIsNoSampleIsRefused) {
  std::istringstream nothing(""), cut("intended_ns,sent_ns,received_ns,flow,unit,measured\n1,2\n");
  EXPECT_FALSE(ParseSamples(nothing));
  EXPECT_FALSE(ParseSamples(cut));
}

TEST(Sample, UnansweredRequestsStandForTheTimeoutInPercentiles) {
  const Sample sample{4, 1, {1, 2, 3}};
  EXPECT_EQ(LatencyPercentile(sample, 75, 1), 3);
  EXPECT_EQ(LatencyPercentile(sample, 76, 1), 1000);
}

TEST(Sample, LateAnswersAreNotAnswered) {
  const Sample sample{4, 1, {1, 2, 30}};
  EXPECT_EQ(AnsweredPct(sample, 10), 50);
  EXPECT_EQ(AnsweredPct(sample, 30), 75);
}

}  // namespace
}  // namespace spillway::lab

// SPDX-License-Identifier: Apache-2.0
#include "lab/load/outcome.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace spillway::load {
namespace {

constexpr std::int64_t kMs = 1'000'000;

// 100 requests a millisecond apart; a client that stalls for its first 50 ms and a unit that answers
// each 1 ms after it was sent.
Trial Stalled() {
  Trial run{Ledger(100, 1000 * kMs, true), 1};
  for (int i = 0; i < 100; ++i) {
    const auto id = run.ledger.Add(i * kMs, true);
    const std::int64_t sent = std::max<std::int64_t>(i, 50) * kMs;
    run.ledger.Sent(id, 0, sent);
    run.ledger.Answered(id, 0, sent + kMs, "a");
  }
  return run;
}

Settings HundredMs() {
  Settings settings;
  settings.duration = std::chrono::milliseconds(100);
  return settings;
}

TEST(Outcome, CountsLatencyFromTheIntendedTime) {
  const auto json = ToJson(HundredMs(), Stalled());
  // Latencies are 51, 50, ..., 2 ms and fifty times 1 ms.
  EXPECT_EQ(json["p50_ms"], 1.0);
  EXPECT_EQ(json["p90_ms"], 41.0);
  EXPECT_EQ(json["p99_ms"], 50.0);
  EXPECT_EQ(json["max_ms"], 51.0);
  EXPECT_EQ(json["p99_from_sent_ms"], 1.0);
  EXPECT_EQ(json["schedule_error_max_us"], 50000.0);
}

TEST(Outcome, CountsWhatWasOfferedSentAndAnsweredApart) {
  Trial run{Ledger(4, 1000 * kMs, true), 2};
  run.ledger.Add(0, false);
  const auto a = run.ledger.Add(1, true), b = run.ledger.Add(2, true);
  run.ledger.Add(3, true);
  run.ledger.Sent(a, 0, 1);
  run.ledger.Sent(b, 1, 2);
  run.ledger.Answered(b, 1, 2 * kMs, "s1/nic");
  const auto json = ToJson(HundredMs(), run);
  EXPECT_EQ(json["warmup"], 1);
  EXPECT_EQ(json["offered"], 3);
  EXPECT_EQ(json["sent"], 2);
  EXPECT_EQ(json["answered"], 1);
  EXPECT_NEAR(json["answered_pct"].get<double>(), 33.333, 1e-9);
  EXPECT_EQ(json["answered_rps"], 10.0);
  EXPECT_EQ(json["units"].dump(), R"({"s1/nic":1})");
}

TEST(Outcome, SaysNullWhereNothingWasAnswered) {
  Trial run{Ledger(1, kMs, true), 1};
  run.ledger.Sent(run.ledger.Add(0, true), 0, 0);
  const auto json = ToJson(HundredMs(), run);
  EXPECT_TRUE(json["p99_ms"].is_null());
  EXPECT_EQ(json["answered_pct"], 0.0);
  EXPECT_TRUE(json["histogram"].empty());
}

TEST(Outcome, HasAHistogramThatHoldsEveryAnswer) {
  const auto json = ToJson(HundredMs(), Stalled());
  std::uint64_t count = 0;
  double last = 0;
  for (const auto& bucket : json["histogram"]) {
    EXPECT_GT(bucket["le_ms"].get<double>(), last);
    last = bucket["le_ms"].get<double>();
    count += bucket["count"].get<std::uint64_t>();
  }
  EXPECT_EQ(count, 100u);
  EXPECT_EQ(json["histogram"][0]["le_ms"], 1.0);  // the bound is inclusive
  EXPECT_EQ(json["histogram"][0]["count"], 50u);
}

TEST(Outcome, SplitsIntoIntervalsOfTheIntendedTime) {
  Settings settings = HundredMs();
  settings.interval = std::chrono::milliseconds(25);
  const auto intervals = ToJson(settings, Stalled())["intervals"];
  ASSERT_EQ(intervals.size(), 4u);
  for (const auto& row : intervals) EXPECT_EQ(row["offered"], 25);
  EXPECT_EQ(intervals[0]["p50_ms"], 39.0);
  EXPECT_EQ(intervals[3]["p99_ms"], 1.0);
}

}  // namespace
}  // namespace spillway::load

// SPDX-License-Identifier: Apache-2.0
// What the latency meter reads of requests that nobody answers.
#include "agent/meters/latency_meter.h"

#include <gtest/gtest.h>

#include <deque>
#include <vector>

#include "bpf/meter_account.h"
#include "core/ring_build.h"

namespace spillway::agent {
namespace {

using namespace std::chrono_literals;

// A meter over memory of the test's own, fed request by request.
class FedMeter : public LatencyMeter {
 public:
  FedMeter() : LatencyMeter(Settings()), buckets_(2048) {
    Configure(Settings(), spw_seed{}, static_cast<uint32_t>(buckets_.size()), &config_);
    memory_ = {&config_, &shared_, &clocks_, std::span(&counts_, 1), std::span(buckets_)};
  }
  static AgentConfig Settings() {
    AgentConfig agent;
    agent.meter.window = 100ms;
    agent.meter.timeout = 10s;
    agent.trigger.threshold = 1e9;
    return agent;
  }
  const char* name() const override { return "fed"; }

  void Request(uint64_t number, Time now, bool tcp = false) {
    const uint64_t hash = spw_mix64(number);
    spw_meter_packet packet{};
    packet.hash = hash;
    packet.tcp = tcp;
    spw_meter_request(&config_, &shared_, &clocks_, &counts_, &buckets_[hash & config_.bucket_mask], &packet,
                      static_cast<uint64_t>(now.count()), 1);
  }
  void Answer(uint64_t number, Time now) {
    const uint64_t hash = spw_mix64(number);
    __u32 marks = 0;
    __u64 latency_ns = 0;
    const uint64_t entry =
        spw_meter_take(&config_, &shared_, &counts_, &buckets_[hash & config_.bucket_mask], hash, &marks);
    ASSERT_NE(entry, 0u);
    spw_meter_answered(&config_, &shared_, &counts_, entry, 0);
    spw_meter_measure(&config_, &shared_, &counts_, entry, marks,
                      spw_meter_step(static_cast<uint64_t>(now.count())), &latency_ns);
  }

 private:
  spw_meter_config config_{};
  spw_meter_shared shared_{};
  spw_meter_clocks clocks_{};
  spw_meter_counts counts_{};
  std::vector<spw_meter_bucket> buckets_;
};

constexpr uint64_t kJunk = 1u << 30, kSlow = 1u << 29;

TEST(LatencyMeter, JunkThatIsNeverAnsweredLeavesTheQueueWhileTheUnitAnswers) {
  FedMeter meter;
  uint32_t longest = 0;
  // 1,000 requests a second, answered in a millisecond, and 100 a second that never are.
  for (int ms = 0; ms < 5000; ms++) {
    const Time now = 1h + std::chrono::milliseconds(ms);
    const auto number = static_cast<uint64_t>(ms);
    if (ms > 0) meter.Answer(number - 1, now);
    meter.Request(number, now);
    if (ms % 10 == 0) meter.Request(kJunk + number, now);
    if (ms % 20 != 0) continue;
    const auto reading = meter.Read(now);
    ASSERT_TRUE(reading);
    if (ms >= 1000) longest = std::max(longest, *reading->queue);
  }
  // 50 ms of junk, and 250 ms till the next search: 30; all of it would be 500.
  EXPECT_LE(longest, 35u);
}

// A glance learns, and leaves the next reading as it would be.
TEST(LatencyMeter, AGlanceTakesNothingFromTheReadings) {
  FedMeter glanced, other;
  for (int ms = 0; ms < 3000; ms++) {
    const Time now = 1h + std::chrono::milliseconds(ms);
    const auto number = static_cast<uint64_t>(ms);
    for (FedMeter* meter : {&glanced, &other}) {
      // It stands still for 100 ms in each second.
      if (ms >= 5 && ms % 1000 >= 100) meter->Answer(number - 5, now);
      meter->Request(number, now);
    }
    const Learnt learnt = glanced.Glance(now);
    if (ms % 20 != 0) continue;
    const auto a = glanced.Read(now), b = other.Read(now);
    ASSERT_TRUE(a && b);
    ASSERT_EQ(a->measure, b->measure) << ms;
    ASSERT_EQ(a->latency_us, b->latency_us) << ms;
    ASSERT_EQ(a->queue, b->queue) << ms;
    ASSERT_EQ(a->stall, b->stall) << ms;
    ASSERT_EQ(a->completed, b->completed) << ms;
    EXPECT_EQ(a->learnt, learnt) << ms;
  }
}

TEST(LatencyMeter, AUnitThatAnswersNothingHasAllThatWaitInItsQueue) {
  FedMeter meter;
  for (int ms = 0; ms < 4000; ms++) {
    const Time now = 1h + std::chrono::milliseconds(ms);
    const auto number = static_cast<uint64_t>(ms);
    if (ms > 0 && ms < 1000) meter.Answer(number - 1, now);
    meter.Request(number, now);
    if (ms % 20 == 0) {
      ASSERT_TRUE(meter.Read(now));
    }
  }
  EXPECT_GE(*meter.Read(1h + 4000ms)->queue, 2999u);  // but two that came as it last answered
}

// A slow unit, all of whose requests wait for long, is not taken for one that ignores them.
TEST(LatencyMeter, ALongQueueThatMovesIsCounted) {
  FedMeter meter;
  for (int ms = 0; ms < 5000; ms++) {
    const Time now = 1h + std::chrono::milliseconds(ms);
    const auto number = static_cast<uint64_t>(ms);
    if (ms >= 800) meter.Answer(number - 800, now);
    meter.Request(number, now);
    if (ms % 20 == 0) {
      ASSERT_TRUE(meter.Read(now));
    }
  }
  EXPECT_EQ(*meter.Read(1h + 5000ms)->queue, 800u);
}

// 1,000 quick requests a second and 20 that take two seconds each: 40 slow ones are in progress at any time,
// whatever the mean says. `junk`: a second, that are never answered.
uint32_t QueueOfAMix(int seconds, int junk) {
  FedMeter meter;
  uint64_t sum = 0;
  uint32_t looks = 0;
  for (int ms = 0; ms < seconds * 1000; ms++) {
    const Time now = 1h + std::chrono::milliseconds(ms);
    const auto number = static_cast<uint64_t>(ms);
    if (ms > 0) meter.Answer(number - 1, now);
    meter.Request(number, now);
    if (ms % 50 == 0) {
      if (ms >= 2000) meter.Answer(kSlow + number - 2000, now);
      meter.Request(kSlow + number, now);
    }
    if (junk > 0 && ms % (1000 / junk) == 0) meter.Request(kJunk + number, now);
    if (ms % 20 != 0) continue;
    const auto reading = meter.Read(now);
    if (ms < (seconds - 5) * 1000) continue;
    sum += *reading->queue;
    looks++;
  }
  return static_cast<uint32_t>(sum / looks);
}

TEST(LatencyMeter, SlowRequestsOfAMixedLoadAreInTheQueue) {
  const uint32_t queue = QueueOfAMix(20, 0);
  EXPECT_GE(queue, 36u);
  EXPECT_LE(queue, 42u);
}

TEST(LatencyMeter, JunkBesideSlowRequestsIsForgottenAndTheyAreNot) {
  // 20 a second for ten seconds each are 200. Below 32 times the mean (1.3 s) all 26 count; up to the age of
  // the slow ones' answers and to the end of that octave (3.2 s) they are told apart by number alone: half of
  // both.
  const uint32_t queue = QueueOfAMix(40, 20);
  EXPECT_GE(queue, 36u);
  EXPECT_LE(queue, 90u) << "of 240";
}

TEST(LatencyMeter, RequestsThatAUnitBeginsToLoseAreForgotten) {
  FedMeter meter;
  // Slow requests were all answered; from 30 s on none is.
  for (int ms = 0; ms < 90'000; ms++) {
    const Time now = 1h + std::chrono::milliseconds(ms);
    const auto number = static_cast<uint64_t>(ms);
    if (ms > 0) meter.Answer(number - 1, now);
    meter.Request(number, now);
    if (ms % 50 == 0) {
      if (ms >= 2000 && ms < 32'000) meter.Answer(kSlow + number - 2000, now);
      meter.Request(kSlow + number, now);
    }
    if (ms % 20 == 0) {
      ASSERT_TRUE(meter.Read(now));
    }
  }
  // All that wait, up to the time-out of 10 s, would be 200.
  EXPECT_LE(*meter.Read(1h + 90'000ms)->queue, 70u);
}

// Answers in turn, one a millisecond; what comes while 80 wait is dropped without a word.
class FullUnit {
 public:
  void Request(Time now) {
    meter_.Request(++number_, now);
    if (waiting_.size() < 80) waiting_.push_back(number_);
  }
  void Answer(Time now) {
    if (waiting_.empty()) return;
    meter_.Answer(waiting_.front(), now);
    waiting_.pop_front();
  }
  uint32_t Queue(Time now) { return *meter_.Read(now)->queue; }

 private:
  FedMeter meter_;
  uint64_t number_ = 0;
  std::deque<uint64_t> waiting_;
};

TEST(LatencyMeter, WhatAFullUnitDropsIsNotInItsQueue) {
  FullUnit unit;
  uint32_t longest = 0;
  for (int ms = 0; ms < 10'000; ms++) {
    const Time now = 1h + std::chrono::milliseconds(ms);
    unit.Answer(now);
    unit.Request(now);
    if (ms % 4 == 0) unit.Request(now);  // a fifth of all is too much
    if (ms % 5 != 0) continue;
    const uint32_t queue = unit.Queue(now);
    if (ms >= 2000) longest = std::max(longest, queue);
  }
  // 80, and of 250 a second those that are not yet overtaken by 25 ms, or not yet looked for; all till the
  // time-out would be 2,000.
  EXPECT_GE(longest, 80u);
  EXPECT_LE(longest, 80u + 250 * (25 + 50 + 80) / 1000 + 10);
}

TEST(LatencyMeter, AUnitThatDroppedTheEndOfABurstIsSeenToBeEmpty) {
  FullUnit unit;
  Time now = 1h;
  for (int ms = 0; ms < 2000; ms++) {
    now += 1ms;
    unit.Answer(now);
    unit.Request(now);
    if (ms % 5 == 0) unit.Queue(now);
  }
  for (int i = 0; i < 150; i++) unit.Request(now);
  EXPECT_GE(unit.Queue(now), 150u);
  for (int ms = 0; ms < 600; ms++) {
    now += 1ms;
    unit.Answer(now);
    if (ms % 5 == 0) unit.Queue(now);
  }
  EXPECT_EQ(unit.Queue(now), 0u) << "70 were dropped and are not 10 s old";
  // It may have stalled: what comes now is in it.
  for (int i = 0; i < 3; i++) unit.Request(now += 5ms);
  EXPECT_EQ(unit.Queue(now), 3u);
}

TEST(LatencyMeter, APortUsedAgainAfterALossIsANewRequest) {
  for (const bool tcp : {false, true}) {
    FedMeter meter;
    auto run = [&, number = uint64_t{0}](Time from, int milliseconds) mutable {
      for (int ms = 0; ms < milliseconds; ms++) {
        const Time now = from + std::chrono::milliseconds(ms);
        if (number > 0) meter.Answer(number, now);
        meter.Request(++number, now);
        if (ms % 10 == 0) meter.Request(kJunk + number, now);
        if (ms % 20 == 0) {
          EXPECT_TRUE(meter.Read(now));
        }
      }
    };
    run(1h, 2000);
    meter.Request(kSlow, 1h + 2000ms, tcp);
    run(1h + 2000ms, 10);
    meter.Request(kSlow, 1h + 2010ms, tcp);  // a client's repetition
    run(1h + 2010ms, 3000);
    const uint64_t timed = meter.totals().counts.latency_sum_ns;
    meter.Request(kSlow, 1h + 5010ms, tcp);
    meter.Answer(kSlow, 1h + 5011ms);
    EXPECT_TRUE(meter.Read(1h + 5011ms));
    const auto took = std::chrono::nanoseconds(meter.totals().counts.latency_sum_ns - timed);
    if (tcp)
      EXPECT_GT(took, 3000ms) << "the rest of a long request";
    else
      EXPECT_LT(took, 50ms);
    EXPECT_EQ(meter.totals().counts.repeated, tcp ? 2u : 1u);
    EXPECT_EQ(meter.totals().counts.overwritten, 0u);
  }
}

}  // namespace
}  // namespace spillway::agent

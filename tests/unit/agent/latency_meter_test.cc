// SPDX-License-Identifier: Apache-2.0
// What the latency meter reads of requests that nobody answers.
#include "agent/latency_meter.h"

#include <gtest/gtest.h>

#include <vector>

#include "bpf/meter_account.h"
#include "core/ring_build.h"

namespace spillway::agent {
namespace {

using namespace std::chrono_literals;

// A meter over memory of the test's own, fed request by request.
class FedMeter : public LatencyMeter {
 public:
  FedMeter() : LatencyMeter(100ms, 0, 10s), buckets_(2048) {
    AgentConfig agent;
    agent.trigger.threshold = 1e9;
    Configure(agent, spw_seed{}, static_cast<uint32_t>(buckets_.size()), &config_);
    memory_ = {&config_, &shared_, &clocks_, std::span(&counts_, 1), std::span(buckets_)};
  }
  const char* name() const override { return "fed"; }

  void Request(uint64_t number, Time now) {
    const uint64_t hash = spw_mix64(number);
    spw_meter_request(&config_, &shared_, &clocks_, &counts_, &buckets_[hash & config_.bucket_mask], hash,
                      static_cast<uint64_t>(now.count()), 1);
  }
  void Answer(uint64_t number, Time now) {
    const uint64_t hash = spw_mix64(number);
    __u32 marks = 0;
    __u64 latency_ns = 0;
    const uint64_t entry =
        spw_meter_take(&config_, &shared_, &counts_, &buckets_[hash & config_.bucket_mask], hash, &marks);
    ASSERT_NE(entry, 0u);
    counts_.completed++;
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
  EXPECT_EQ(*meter.Read(1h + 4000ms)->queue, 3001u);
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
  // All that wait, up to the time-out of 10 s, would be 200; what is believed yet is what its age says.
  EXPECT_LE(*meter.Read(1h + 90'000ms)->queue, 70u);
}

}  // namespace
}  // namespace spillway::agent

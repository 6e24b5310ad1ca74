// SPDX-License-Identifier: Apache-2.0
#include "agent/learner/ration.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace spillway::agent {
namespace {

constexpr double kMs = 1e6;

// A unit whose requests take `cost` of CPU time, asked one after another at an even pace, under a quota that
// the kernel enforces exactly. Its periods begin at kPhase.
class RationedUnit {
 public:
  static constexpr double kPhase = 3.7 * kMs;

  RationedUnit(double quota_ms, double period_ms, double cost_ms, double told_ms = 1)
      : quota_(quota_ms * kMs),
        period_(period_ms * kMs),
        cost_(cost_ms * kMs),
        ration_(std::chrono::nanoseconds(std::llround(told_ms * kMs))) {}

  // Goes on in steps of 10 us, looking each `look`, until `until_ms`. asked_ms: between two requests.
  void Run(double until_ms, double asked_ms, double look_ms) {
    constexpr double kStep = 0.01 * kMs;
    for (; now_ < until_ms * kMs; now_ += kStep) {
      if (std::floor((now_ - kPhase) / period_) != std::floor((now_ - kStep - kPhase) / period_)) {
        left_ = quota_;
        periods_++;
      }
      if (now_ >= next_request_) {
        arrivals_ += static_cast<uint64_t>(burst_);
        work_ += burst_ * cost_;
        arrivals_ += static_cast<uint64_t>(rubbish_);
        next_request_ += asked_ms * kMs;
      }
      const double done = std::min({kStep, work_, left_});
      work_ -= done;
      left_ -= done;
      used_ += done;
      if (now_ < next_look_) continue;
      next_look_ += look_ms * kMs;
      const std::chrono::nanoseconds at(std::llround(now_));
      if (!ration_.Due(at)) {
        ration_.Pass(at);
        continue;
      }
      readings_++;
      ration_.Learn(at, Reading(), arrivals_, Answers());
    }
  }
  QuotaReading Reading() const { return {used_, quota_, period_, periods_, periods_, 1}; }
  uint64_t Answers() const { return static_cast<uint64_t>(used_ / cost_ + 1e-6); }
  double ToRefillMs() const {
    const double into = std::fmod(now_ - kPhase + period_, period_);
    return (period_ - into) / kMs;
  }
  const Rationed& rationed() const { return ration_.rationed(); }
  double cost_ms() const { return cost_ / kMs; }

  double left_ = 0;
  int readings_ = 0;
  int burst_ = 1;    // requests at a time
  int rubbish_ = 0;  // with each of these, others that nobody works on

 private:
  double quota_, period_, cost_;
  double now_ = 0, next_request_ = 0, next_look_ = 0, work_ = 0, used_ = 0;
  uint64_t arrivals_ = 0, periods_ = 0;
  Ration ration_;
};

TEST(Ration, AUsedUpBudgetIsKnownUntilItsPeriodEnds) {
  RationedUnit unit(20, 100, 0.25);
  unit.Run(2000, 0.5, 1);  // twice the CPU time that there is
  int used_up = 0;
  for (int t = 2000; t < 2300; t += 7) {
    unit.Run(t, 0.5, 1);
    const double refill_ms = unit.rationed().refill_ns / kMs;
    if (unit.left_ > 0.03 * 20 * kMs) {
      EXPECT_EQ(refill_ms, 0) << "at " << t;
    } else if (unit.left_ <= 0 && unit.ToRefillMs() < 75) {  // and was so at the last reading
      used_up++;
      EXPECT_NEAR(refill_ms, unit.ToRefillMs(), 1.5) << "at " << t;
    }
  }
  EXPECT_GT(used_up, 20);
}

TEST(Ration, ReadingsAreWantedSomeThirtyTimesAPeriodHoweverOftenItIsLookedAt) {
  RationedUnit unit(20, 100, 0.25);
  unit.Run(1000, 0.5, 0.1);
  const int before = unit.readings_;
  unit.Run(2000, 0.5, 0.1);
  EXPECT_GT(unit.readings_ - before, 300);
  EXPECT_LT(unit.readings_ - before, 360);
}

TEST(Ration, WhileWhatIsAskedFitsARequestCostsNobody) {
  RationedUnit unit(20, 100, 0.25);
  unit.Run(3000, 5, 1);  // a quarter of the quota
  for (int t = 3000; t < 3300; t += 7) {
    unit.Run(t, 5, 1);
    EXPECT_EQ(unit.rationed().refill_ns, 0);
    EXPECT_LT(unit.rationed().price_ns / kMs, 0.01);
    EXPECT_LT(unit.rationed().slot_ns / kMs, 0.05);
  }
}

// A fifth more than there is: the unit will stand still for about a sixth of the period.
TEST(Ration, ThePriceOfARequestIsByTheTimeThatTheUnitIsExpectedToStandStill) {
  RationedUnit unit(20, 100, 0.25);
  unit.Run(3000, 1.04, 1);
  double stands_ms = 0, price_ms = 0;  // of all looks: each reading is up to 3 ms old
  int looks = 0;
  for (int t = 3000; t < 3800; t += 3) {
    unit.Run(t, 1.04, 1);
    const double left_ms = unit.left_ / kMs, to_end_ms = unit.ToRefillMs();
    const double stands = to_end_ms - left_ms / unit.cost_ms() * 1.04;
    if (left_ms < 4 || to_end_ms > 95 || stands < 4) continue;
    looks++;
    stands_ms += stands;
    price_ms += unit.rationed().price_ns / kMs;
  }
  EXPECT_GT(looks, 20);
  EXPECT_NEAR(price_ms / stands_ms, 1, 0.25);
}

TEST(Ration, WhereMoreIsAskedThanIsLeftARequestCountsItsShareOfThePeriod) {
  RationedUnit unit(20, 100, 0.25);
  unit.Run(3000, 1, 1);  // a quarter more than there is
  int looks = 0;
  for (int t = 3000; t < 3400; t += 3) {
    unit.Run(t, 1, 1);
    const double left_ms = unit.left_ / kMs;
    if (left_ms < 5 || unit.ToRefillMs() > 95) continue;  // and was so at the last reading
    looks++;
    const double share_ms = unit.ToRefillMs() / (left_ms / unit.cost_ms());
    EXPECT_NEAR(unit.rationed().slot_ns / kMs, share_ms, 0.4 * share_ms) << "at " << t;
  }
  EXPECT_GT(looks, 10);
}

// The mean price of requests that come in bursts, each `gap_ms` after the last per request.
double PriceMs(int burst, double gap_ms) {
  RationedUnit unit(20, 100, 0.25);
  unit.burst_ = burst;
  double sum = 0;
  for (int t = 3000; t < 4000; t += 7) {
    unit.Run(t, gap_ms * burst, 1);
    sum += unit.rationed().price_ns / kMs;
  }
  return sum / 143;
}

// The same mean, in bursts or one by one: what scatters more is more likely to be too much.
TEST(Ration, RequestsThatComeInBurstsCostMore) {
  const double gap_ms = 1.35;  // nine tenths of the quota
  EXPECT_LT(PriceMs(1, gap_ms), 0.05);
  EXPECT_GT(PriceMs(24, gap_ms), 1);
}

// A p99 does not show them, but it would show those that were sent to a slower unit for their sake.
TEST(Ration, WhileFewRequestsWouldBeLateNoneCostsMore) {
  EXPECT_EQ(PriceMs(1, 1.25), 0);  // just the quota: in a period of 80 requests one is too many
  EXPECT_GT(PriceMs(1, 1.2), 1);
}

// It counts over longer then, in which less scatters.
TEST(Ration, ThereIsAPriceHoweverRarelyItIsLookedAt) {
  const auto price = [](double look_ms) {
    RationedUnit unit(20, 100, 0.25);
    std::mt19937_64 random(1);
    double sum = 0;
    int looks = 0;
    for (int t = 10; t < 20'000; t += 10) {
      unit.Run(t, 1.6 * 10 * std::exponential_distribution<double>()(random), look_ms);
      if (t > 3000) sum += unit.rationed().price_ns / kMs, looks++;
    }
    return sum / looks;
  };
  const double often = price(1);
  EXPECT_GT(often, 0.05);
  EXPECT_GT(price(20), 0.5 * often);
}

TEST(Ration, RequestsThatNobodyWorksOnCostNothing) {
  RationedUnit unit(20, 100, 0.25);
  unit.rubbish_ = 9;
  unit.Run(3000, 5, 1);  // a quarter of the quota
  for (int t = 3000; t < 3300; t += 7) {
    unit.Run(t, 5, 1);
    EXPECT_LT(unit.rationed().price_ns / kMs, 0.05);
  }
}

// Its server has gone to another group, say.
TEST(Ration, AGroupThatUsesNothingIsNotJudgedByWhatIsAsked) {
  Ration ration;
  QuotaReading reading{.used_ns = 0, .quota_ns = 20 * kMs, .period_ns = 100 * kMs, .periods = 1};
  for (int ms = 1; ms < 120'000; ms++) {
    if (ms < 1000) reading.used_ns += 0.1 * kMs;
    if (ms % 100 == 50) reading.periods++;
    ration.Learn(std::chrono::milliseconds(ms), reading, static_cast<uint64_t>(ms) * 100,
                 static_cast<uint64_t>(ms) * 100);
    ASSERT_TRUE(ration.rationed().price_ns >= 0 && ration.rationed().slot_ns >= 0) << ms;
  }
  EXPECT_EQ(ration.rationed().price_ns, 0);
}

// A tenth more is asked than there is. The highest in 300 ms.
double HighestPriceMs(RationedUnit unit, double asked_ms) {
  unit.Run(3000, asked_ms, 1);
  double highest = 0;
  for (int t = 3000; t < 3300; t += 3) {
    unit.Run(t, asked_ms, 1);
    highest = std::max(highest, unit.rationed().price_ns / kMs);
  }
  return highest;
}

TEST(Ration, AQuotaOfAFewRequestsHasAPriceInLongPeriods) {
  EXPECT_GT(HighestPriceMs({20, 100, 4}, 18), 4) << "the time between two requests is 18 ms";
  EXPECT_GT(HighestPriceMs({2, 10, 0.5}, 2.3), 0);
  EXPECT_EQ(HighestPriceMs({1.8, 9, 0.5}, 2.3), 0);
  EXPECT_GT(HighestPriceMs({20, 100, 10}, 45), 0);
  EXPECT_EQ(HighestPriceMs({20, 100, 10.2}, 45), 0) << "worth fewer than two";
}

TEST(Ration, WhereTheSwitchIsToldTooRarelyThereIsNoPrice) {
  EXPECT_GT(HighestPriceMs({20, 100, 0.25, 25}, 1.1), 0);
  EXPECT_EQ(HighestPriceMs({20, 100, 0.25, 26}, 1.1), 0);
}

TEST(Ration, AQuotaOfAFewRequestsHasNoPriceInShortPeriods) {
  RationedUnit unit(1, 5, 0.25);
  unit.Run(3000, 1.25, 1);
  for (int t = 3000; t < 3100; t += 1) {
    unit.Run(t, 1.25, 1);
    EXPECT_EQ(unit.rationed().price_ns, 0);
    EXPECT_EQ(unit.rationed().slot_ns, 0);
  }
}

TEST(Ration, UntilAPeriodWasSeenToBeginNothingIsSaid) {
  Ration ration;
  QuotaReading reading{.used_ns = 0, .quota_ns = 20 * kMs, .period_ns = 100 * kMs, .periods = 7};
  for (int look = 1; look <= 50; look++) {
    reading.used_ns += 1 * kMs;  // 50 ms of a budget of 20
    ration.Learn(std::chrono::milliseconds(look), reading, static_cast<uint64_t>(look),
                 static_cast<uint64_t>(look));
  }
  EXPECT_EQ(ration.rationed().refill_ns, 0);
  EXPECT_EQ(ration.rationed().price_ns, 0);
}

// Its accounts say that it uses five times its quota, for a minute.
TEST(Ration, AQuotaThatStopsNobodyIsNotBelieved) {
  for (const bool stopped : {true, false}) {
    Ration ration;
    QuotaReading reading{.used_ns = 0, .quota_ns = 20 * kMs, .period_ns = 100 * kMs, .periods = 1};
    int ms = 0;
    const auto go_on = [&](int until_ms, double used_per_ms) {
      for (; ms < until_ms; ms++) {
        reading.used_ns += used_per_ms * kMs;
        if (ms % 100 == 50) {
          reading.periods++;
          reading.throttled += stopped ? 1 : 0;
        }
        ration.Learn(std::chrono::milliseconds(ms), reading, static_cast<uint64_t>(ms),
                     static_cast<uint64_t>(ms));
      }
    };
    go_on(59'940, 1);
    EXPECT_EQ(ration.rationed().refill_ns > 0, stopped);
    go_on(60'300, 0);
    EXPECT_EQ(ration.rationed().refill_ns, 0) << "no such debt is believed for long";
  }
}

TEST(Ration, AnotherQuotaOrAnotherGroupBeginsAnew) {
  for (const bool other_quota : {true, false}) {
    RationedUnit unit(20, 100, 0.25);
    unit.Run(2000, 0.5, 1);
    Ration ration;
    QuotaReading reading = unit.Reading();
    const auto learn = [&](int ms) { ration.Learn(std::chrono::milliseconds(ms), reading, 100, 100); };
    learn(1);
    reading.periods++;
    learn(2);
    reading.used_ns += 20 * kMs;
    learn(3);
    ASSERT_GT(ration.rationed().refill_ns, 0);
    other_quota ? reading.quota_ns *= 2 : reading.used_ns = 0;
    learn(4);
    EXPECT_EQ(ration.rationed().refill_ns, 0);
  }
}

}  // namespace
}  // namespace spillway::agent

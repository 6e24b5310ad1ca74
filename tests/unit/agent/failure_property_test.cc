// SPDX-License-Identifier: Apache-2.0
// When the agent says that its unit fails: what must hold whatever a simulated unit does.
#include <gtest/gtest.h>

#include <deque>
#include <random>

#include "agent/failure_detector.h"
#include "agent/meters/latency_meter.h"

namespace spillway::agent {
namespace {

using namespace std::chrono_literals;

// Requests at random times to a unit with random service times, through the window that makes readings of
// the meter's counters; at random moments it dies or hangs, and comes back.
class SimulatedUnit {
 public:
  explicit SimulatedUnit(uint64_t seed) : random_(seed) {}

  std::mt19937_64& random() { return random_; }
  double Uniform(double low, double high) { return std::uniform_real_distribution(low, high)(random_); }
  void SetUp(double service_ms, double gap_ms) { service_ms_ = service_ms, gap_ms_ = gap_ms; }
  enum class State { kServes, kHangs, kRefuses };
  void Become(State state) {
    if (state == State::kRefuses) pending_.clear();
    if (state == State::kServes) free_at_ = std::max(free_at_, now_ms_);
    state_ = state;
  }

  // One look later.
  Reading Advance(double look_ms) {
    const double until = now_ms_ + look_ms;
    while (next_ms_ <= until) {
      now_ms_ = next_ms_;
      next_ms_ += std::exponential_distribution(1 / gap_ms_)(random_);
      Finish(now_ms_);
      totals_.counts.arrivals++;
      if (state_ == State::kRefuses) {
        totals_.counts.refused++, totals_.counts.abandoned++;
      } else {
        pending_.push_back(now_ms_);
      }
    }
    now_ms_ = until;
    Finish(now_ms_);
    totals_.pending = static_cast<uint32_t>(pending_.size());
    totals_.oldest = pending_.empty() ? 0ns : Duration(static_cast<int64_t>((now_ms_ - pending_[0]) * 1e6));
    Reading reading = window_.Update(Time(static_cast<int64_t>(now_ms_ * 1e6)), totals_);
    reading.learnt.base_us = static_cast<uint32_t>(service_ms_ * 1000);
    return reading;
  }
  double now_ms() const { return now_ms_; }

 private:
  void Finish(double until) {
    while (state_ == State::kServes && !pending_.empty()) {
      const double done = std::max(free_at_, pending_[0]) + service_ms_ * Uniform(0.5, 1.5);
      if (done > until) return;
      free_at_ = done;
      pending_.pop_front();
      totals_.counts.completed++;
    }
  }

  std::mt19937_64 random_;
  double service_ms_ = 1, gap_ms_ = 2, now_ms_ = 1000, next_ms_ = 1000, free_at_ = 0;
  State state_ = State::kServes;
  std::deque<double> pending_;
  MeterTotals totals_;
  LatencyWindow window_{100ms};
};

TEST(FailureProperty, ALivingUnitNeverFailsHoweverItIsLoaded) {
  for (uint64_t seed = 1; seed <= 60; seed++) {
    SimulatedUnit unit(seed);
    FailureDetector detector{FailingConfig{}};
    const double service = std::exp(unit.Uniform(std::log(0.05), std::log(50)));
    unit.SetUp(service, service / unit.Uniform(0.05, 1.3));  // overloaded, too
    const double look = unit.Uniform(1, 50);
    for (int i = 0; i < 2000; i++) {
      const Reading reading = unit.Advance(look);
      ASSERT_EQ(detector.Update(reading.at, reading), Failure::kNone)
          << "seed " << seed << " service " << service << " ms, look " << i;
    }
  }
}

// Answers one at a time, of which the agent is told at once when they make a row of errors.
class AnswerByAnswer {
 public:
  explicit AnswerByAnswer(uint64_t seed) : random_(seed) { reading_.learnt.base_us = 1000; }
  double Uniform(double low, double high) { return std::uniform_real_distribution(low, high)(random_); }
  double now_ms() const { return now_ms_; }
  Failure failure() const { return detector_.failure(); }
  // So much later.
  Failure Answer(bool is_error, double gap_ms) {
    now_ms_ += gap_ms;
    for (; next_look_ms_ <= now_ms_ - 20; next_look_ms_ += 20) Look(next_look_ms_);
    reading_.arrivals++;
    reading_.completed++;
    reading_.errors += is_error;
    reading_.error_row = is_error ? reading_.error_row + 1 : 0;
    const bool told = is_error && reading_.error_row >= SPW_METER_ERROR_ROW;
    if (!told && now_ms_ < next_look_ms_) return detector_.failure();
    if (now_ms_ >= next_look_ms_) next_look_ms_ = now_ms_ + 20;
    return Look(now_ms_);
  }

 private:
  Failure Look(double at_ms) {
    reading_.at = Time(static_cast<int64_t>(at_ms * 1e6));
    return detector_.Update(reading_.at, reading_);
  }

  std::mt19937_64 random_;
  double now_ms_ = 1000, next_look_ms_ = 1000;
  Reading reading_;
  FailureDetector detector_{FailingConfig{}};
};

TEST(FailureProperty, AUnitThatAnswersErrorsNowAndThenOrInShortBurstsDoesNotFail) {
  for (uint64_t seed = 1; seed <= 40; seed++) {
    AnswerByAnswer unit(seed);
    const double share = unit.Uniform(0, 0.1), gap = std::exp(unit.Uniform(std::log(0.02), std::log(20)));
    int burst = 0, next = 200;
    for (int i = 0; i < 30'000; i++) {
      // Beside random ones, rows of up to eleven, with a good answer before and after.
      bool is_error = share > unit.Uniform(0, 1);
      if (burst > 0) {
        is_error = --burst > 0;
      } else if (i >= next) {
        is_error = false;
        next = i + static_cast<int>(unit.Uniform(150, 500));
        burst = static_cast<int>(unit.Uniform(2, 13));
      }
      ASSERT_EQ(unit.Answer(is_error, gap * unit.Uniform(0.1, 1.9)), Failure::kNone)
          << "seed " << seed << ", answer " << i << ", share " << share;
    }
  }
}

// Bursts, a few a second, of requests that get errors, among many more that get none. While the unit is out
// no more bursts reach it, and of the others what is under way and then probes.
TEST(FailureProperty, AFewPercentOfBurstsDoNotKeepAUnitOut) {
  for (uint64_t seed = 1; seed <= 20; seed++) {
    AnswerByAnswer unit(seed);
    const double gap = unit.Uniform(0.2, 0.5), good_in_burst = seed % 2 == 0 ? 0 : unit.Uniform(0, 0.3);
    const double begun = unit.now_ms(), end = begun + 60'000;
    double out_ms = 0, next_burst = begun + 2000;
    int answers = 0, errors = 0;
    while (unit.now_ms() < end) {
      unit.Answer(false, gap * unit.Uniform(0.1, 1.9));
      answers++;
      if (unit.now_ms() >= next_burst) {
        next_burst = unit.now_ms() + unit.Uniform(200, 600);
        for (int i = static_cast<int>(unit.Uniform(30, 41)); i > 0; i--, answers++) {
          const bool is_error = unit.Uniform(0, 1) >= good_in_burst;
          errors += is_error;
          unit.Answer(is_error, 0.02);
        }
      }
      const double out_since = unit.now_ms();
      for (int under_way = 3; unit.failure() != Failure::kNone && unit.now_ms() < end; under_way--)
        unit.Answer(false, under_way > 0 ? gap : 200);
      out_ms += unit.now_ms() - out_since;
    }
    EXPECT_LT(out_ms, 0.05 * (end - begun))
        << "seed " << seed << ", errors " << 100.0 * errors / answers << " %";
  }
}

TEST(FailureProperty, AUnitThatAnswersNothingButErrorsFailsWithTheTwelfth) {
  for (uint64_t seed = 1; seed <= 60; seed++) {
    AnswerByAnswer unit(seed);
    const double share = unit.Uniform(0, 0.1), gap = std::exp(unit.Uniform(std::log(0.02), std::log(10)));
    for (int i = 0; i < 500; i++)
      ASSERT_EQ(unit.Answer(i % 5 != 0 && share > unit.Uniform(0, 1), gap), Failure::kNone) << seed;
    Failure failure = unit.Answer(false, gap);
    int errors = 0;
    for (; failure == Failure::kNone && errors < 100; errors++)
      failure = unit.Answer(true, gap * unit.Uniform(0.1, 1.9));
    EXPECT_EQ(failure, Failure::kErrors) << seed;
    EXPECT_EQ(errors, SPW_METER_ERROR_ROW) << seed;
  }
}

// With the latency that was learnt before: how slow it has become is yet to be learnt.
TEST(FailureProperty, AUnitThatBecomesTenTimesSlowerIsCalledFailingForOnePauseAtMost) {
  int pauses = 0;
  for (uint64_t seed = 1; seed <= 60; seed++) {
    SimulatedUnit unit(seed);
    FailureDetector detector{FailingConfig{}};
    const double service = std::exp(unit.Uniform(std::log(0.05), std::log(10)));
    const double gap = service / unit.Uniform(0.05, 0.9), look = unit.Uniform(1, 25);
    unit.SetUp(service, gap);
    const auto advance = [&] {
      Reading reading = unit.Advance(look);
      reading.learnt.base_us = static_cast<uint32_t>(service * 1000);
      return detector.Update(reading.at, reading);
    };
    for (int i = 0; i < 100; i++) ASSERT_EQ(advance(), Failure::kNone) << seed;
    unit.SetUp(10 * service, gap);
    int times = 0;
    for (Failure last = Failure::kNone; unit.now_ms() < 20'000;) {
      const Failure failure = advance();
      ASSERT_NE(failure, Failure::kRefused);
      times += failure != Failure::kNone && last == Failure::kNone;
      last = failure;
    }
    EXPECT_LE(times, service < 1.3 ? 0 : 1) << "seed " << seed << " service " << service << " ms";
    pauses += times;
  }
  EXPECT_GT(pauses, 0) << "some have a pause that is longer than anything known";
}

TEST(FailureProperty, ADeadOneFailsInTimeAndComesBackWithItsAnswers) {
  using State = SimulatedUnit::State;
  for (uint64_t seed = 1; seed <= 60; seed++) {
    SimulatedUnit unit(seed);
    FailureDetector detector{FailingConfig{}};
    const double service = std::exp(unit.Uniform(std::log(0.05), std::log(20)));
    const double gap = service / unit.Uniform(0.2, 0.9), look = unit.Uniform(1, 25);
    unit.SetUp(service, gap);
    const auto advance = [&] {
      const Reading reading = unit.Advance(look);
      return detector.Update(reading.at, reading);
    };
    for (int i = 0; i < 100; i++) ASSERT_EQ(advance(), Failure::kNone) << seed;
    for (State fault : {State::kHangs, State::kRefuses, State::kHangs}) {
      // Ten latencies, some more until requests have come, and looks.
      const double limit = 10 * service + 20 + 20 * gap + 3 * look;
      unit.Become(fault);
      const double begun = unit.now_ms();
      Failure failure = Failure::kNone;
      while (failure == Failure::kNone && unit.now_ms() < begun + 10 * limit) failure = advance();
      ASSERT_LE(unit.now_ms() - begun, limit) << "seed " << seed << " service " << service;
      ASSERT_EQ(failure, fault == State::kHangs ? Failure::kUnanswered : Failure::kRefused) << seed;
      // Not by itself; longer than a pause.
      for (const double end = unit.now_ms() + 300; unit.now_ms() < end;)
        ASSERT_EQ(advance(), failure) << seed;
      unit.Become(State::kServes);
      const double served = unit.now_ms();
      while (failure != Failure::kNone && unit.now_ms() < served + 10 * limit) failure = advance();
      ASSERT_LE(unit.now_ms() - served, limit) << "seed " << seed;
      for (int i = 0; i < 100; i++) ASSERT_EQ(advance(), Failure::kNone) << seed;
    }
  }
}

}  // namespace
}  // namespace spillway::agent

// SPDX-License-Identifier: Apache-2.0
// What is learnt of a slice, against a reference that keeps every request and does the textbook's weighted
// least squares over all of them.
#include "gateway/broker/service_time.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

namespace spillway::gateway {
namespace {

using namespace std::chrono_literals;
using Duration = ServiceTime::Duration;

class Reference {
 public:
  void Learn(int64_t rows, Duration reported, Duration measured) {
    const double most = static_cast<double>(measured.count()), least = most / 2;
    done_.push_back({static_cast<double>(rows),
                     std::min(std::max(static_cast<double>(reported.count()), std::floor(least)), most)});
  }
  double Expect(int64_t rows) const {
    double all = 0, mean_x = 0, mean_y = 0;
    const auto weight = [&](size_t i) {
      return std::pow(15.0 / 16, static_cast<double>(done_.size() - 1 - i));
    };
    for (size_t i = 0; i < done_.size(); i++) {
      all += weight(i);
      mean_x += weight(i) * done_[i].rows;
      mean_y += weight(i) * done_[i].ns;
    }
    mean_x /= all;
    mean_y /= all;
    double xx = 0, xy = 0;
    for (size_t i = 0; i < done_.size(); i++) {
      xx += weight(i) * (done_[i].rows - mean_x) * (done_[i].rows - mean_x);
      xy += weight(i) * (done_[i].rows - mean_x) * (done_[i].ns - mean_y);
    }
    const double in_proportion = mean_y / mean_x;
    const bool one_size = xx / all <= 1e-6 * mean_x * mean_x;
    const double slope = one_size ? in_proportion : std::min(std::max(xy / xx, 0.0), in_proportion);
    return mean_y + slope * (static_cast<double>(rows) - mean_x);
  }

 private:
  struct Done {
    double rows, ns;
  };
  std::vector<Done> done_;
};

TEST(ServiceTime, IsTheWeightedLeastSquaresOfAllRequests) {
  std::mt19937_64 random(1);
  for (int history = 0; history < 300; history++) {
    SCOPED_TRACE(history);
    ServiceTime time;
    Reference reference;
    const int64_t most_rows = int64_t{1} << (random() % 8);
    for (int i = 0; i < 60; i++) {
      const int64_t rows = 1 + static_cast<int64_t>(random() % static_cast<uint64_t>(most_rows));
      const Duration measured(1'000 + random() % 100'000'000);
      // Any 64 bits may come from an executor.
      const Duration reported(static_cast<int64_t>(random() >> (random() % 64)));
      time.Learn(rows, reported, measured, 0ns);
      reference.Learn(rows, reported, measured);
      const double expected = reference.Expect(rows);
      ASSERT_NEAR(static_cast<double>(time.Expect(rows, 0ns)->count()), expected, 2 + expected * 1e-6);
    }
  }
}

TEST(ServiceTime, IsNotLearntFromNothing) {
  EXPECT_EQ(ServiceTime().Expect(1, 0ns), std::nullopt);
  EXPECT_EQ(ServiceTime().Longest(), 0ns);
}

TEST(ServiceTime, AnExecutorThatLiesIsBoundedByWhatTheGatewayMeasures) {
  for (const Duration reported : {Duration::min(), Duration(-1), 0ns, Duration(1), Duration::max()}) {
    ServiceTime time;
    for (int i = 0; i < 100; i++) time.Learn(1, reported, 200ms, 0ns);
    EXPECT_GE(*time.Expect(1, 0ns), 100ms) << reported.count();
    EXPECT_LE(*time.Expect(1, 0ns), 200ms) << reported.count();
    EXPECT_EQ(time.Longest(), 200ms);
  }
  ServiceTime honest;
  honest.Learn(1, 150ms, 200ms, 0ns);
  EXPECT_EQ(honest.Expect(1, 0ns), 150ms);
}

TEST(ServiceTime, AModelsFixedPartAndItsRowsAreToldApart) {
  ServiceTime time;
  for (int i = 0; i < 200; i++) {
    const int64_t rows = i % 2 == 0 ? 1 : 64;
    time.Learn(rows, 10ms + rows * 1ms, 10ms + rows * 1ms, 0ns);
  }
  EXPECT_NEAR(static_cast<double>(time.Expect(32, 0ns)->count()), 42e6, 1e3);
  ServiceTime of_one_size;
  of_one_size.Learn(2, 10ms, 10ms, 0ns);
  EXPECT_EQ(of_one_size.Expect(8, 0ns), 40ms);
}

TEST(ServiceTime, FadesByWhatTheModelsRequestsTakeElsewhereAndNoFaster) {
  ServiceTime time;
  time.Learn(1, 200ms, 200ms, 1s);
  EXPECT_EQ(time.Expect(1, 1s), 200ms);
  EXPECT_EQ(time.Expect(1, 1s + 64 * 50ms), 150ms);
  EXPECT_EQ(time.Expect(1, 100s), 1ns);
  time.Learn(1, 200ms, 200ms, 100s);
  EXPECT_EQ(time.Expect(1, 100s), 200ms);
}

}  // namespace
}  // namespace spillway::gateway

// SPDX-License-Identifier: Apache-2.0
// A worker that holds events beyond the deadline. Here the deadline is a nanosecond, so whoever holds is
// late.
#include "dispatch/native/port.h"
#include "domain_bed.h"

namespace spillway::dispatch {
namespace {

class LostWorker : public DomainBed {
 protected:
  void SetUp() override {
    DomainOptions options;
    options.deadline = std::chrono::nanoseconds(1);
    Open(options);
  }
};

TEST_F(LostWorker, WhatItHeldIsHandedOnInItsPlace) {
  const uint16_t queue = AddQueue(Kind::kAtomic);
  auto producer = AddPort(), hung = AddPort({queue}), other = AddPort({queue});
  for (uint64_t i = 0; i < 4; i++) Put(*producer, queue, 1, i);
  EXPECT_EQ(Take(*hung, 2), (Users{0, 1}));
  EXPECT_EQ(Take(*other), Users{}) << "2 and 3 are set aside for the hung worker";
  EXPECT_EQ(domain_->HandOnHung(), 2u);
  EXPECT_TRUE(hung->Lost());
  EXPECT_EQ(Take(*other), (Users{0, 1, 2, 3}));
  const DomainStatistics statistics = domain_->Statistics();
  EXPECT_EQ(statistics.workers_lost, 1u);
  EXPECT_EQ(statistics.events_handed_on, 2u);
}

TEST_F(LostWorker, WhatItSaysLaterIsRefusedAndCounted) {
  const uint16_t queue = AddQueue(Kind::kAtomic), out = AddQueue(Kind::kDirected);
  auto producer = AddPort(), hung = AddPort({queue}), other = AddPort({queue}), sink = AddPort({out}, true);
  Put(*producer, queue, 1, 7);
  EXPECT_EQ(Take(*hung), Users{7});
  domain_->HandOnHung();
  EXPECT_EQ(Forward(*hung, out, 1, 7), 0u);
  EXPECT_EQ(hung->Release(1), 0u);
  EXPECT_TRUE(Take(*hung).empty());
  EXPECT_EQ(Take(*other), Users{7});
  EXPECT_EQ(Forward(*other, out, 1, 7), 1u);
  EXPECT_EQ(Take(*sink), Users{7}) << "downstream sees it once";
  EXPECT_EQ(hung->Statistics().refused_lost, 2u);
}

TEST_F(LostWorker, OrderedEventsKeepTheirPlaceInTheOutput) {
  const uint16_t queue = AddQueue(Kind::kOrdered), out = AddQueue(Kind::kDirected);
  auto producer = AddPort(), hung = AddPort({queue}), other = AddPort({queue}), sink = AddPort({out}, true);
  for (uint64_t i = 0; i < 4; i++) Put(*producer, queue, 1, i);
  EXPECT_EQ(Take(*hung, 2), (Users{0, 1}));
  EXPECT_EQ(domain_->HandOnHung(), 2u);
  for (int i = 0; i < 2; i++) {
    for (uint64_t user : Take(*other, 2)) EXPECT_EQ(Forward(*other, out, 1, user), 1u);
  }
  EXPECT_EQ(Take(*sink), (Users{0, 1, 2, 3}));
}

TEST_F(LostWorker, ADirectedQueueIsFreeForAnotherPort) {
  const uint16_t queue = AddQueue(Kind::kDirected);
  auto producer = AddPort(), hung = AddPort({queue});
  Put(*producer, queue, 1, 1);
  Put(*producer, queue, 1, 2);
  EXPECT_EQ(Take(*hung, 1), Users{1});
  EXPECT_EQ(domain_->HandOnHung(), 1u);
  auto other = AddPort({queue});
  EXPECT_EQ(Take(*other), (Users{1, 2}));
}

TEST_F(LostWorker, WhoHoldsNothingIsNeverLate) {
  const uint16_t queue = AddQueue(Kind::kUnordered);
  auto producer = AddPort(), worker = AddPort({queue});
  Put(*producer, queue, 1, 1);
  EXPECT_EQ(Take(*worker), Users{1});
  worker->Release(1);
  EXPECT_EQ(domain_->HandOnHung(), 0u);
  EXPECT_FALSE(worker->Lost());
  EXPECT_EQ(domain_->Statistics().workers_lost, 0u);
}

TEST_F(LostWorker, CreditsAreAllThereAfterwards) {
  const uint16_t queue = AddQueue(Kind::kAtomic);
  auto producer = AddPort(), hung = AddPort({queue}), other = AddPort({queue}, true);
  for (uint64_t i = 0; i < 20; i++) Put(*producer, queue, static_cast<uint32_t>(i), i);
  EXPECT_EQ(Take(*hung, 5).size(), 5u);
  domain_->HandOnHung();
  while (!Take(*other).empty()) {
  }
  hung.reset();
  other.reset();
  producer.reset();
  EXPECT_EQ(domain_->Statistics().credits_free, domain_->Statistics().credits);
}

// With an hour as deadline and the time told, so that no test waits for it.
class SlowWorker : public DomainBed {
 protected:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::hours kDeadline{1};
  void SetUp() override {
    DomainOptions options;
    options.deadline = kDeadline;
    Open(options);
    queue_ = AddQueue(Kind::kUnordered);
    producer_ = AddPort();
    worker_ = AddPort({queue_});
  }
  void TakeOne() {
    ASSERT_EQ(Put(*producer_, queue_, 1, 1), 1u);
    ASSERT_EQ(Take(*worker_, 1).size(), 1u);
  }
  bool HungAt(Clock::time_point when) { return dynamic_cast<NativePort&>(*worker_).HandOnIfHung(when) >= 0; }
  uint16_t queue_ = 0;
  std::unique_ptr<Port> producer_, worker_;
};

TEST_F(SlowWorker, ThatAlwaysHoldsSomethingButProgressesIsNotHung) {
  TakeOne();
  const auto later = Clock::now();
  TakeOne();
  worker_->Release(1);
  EXPECT_FALSE(HungAt(later + kDeadline)) << "the event that it held first has ended";
  TakeOne();
  const auto last = Clock::now();
  const Event end = MakeEvent(queue_, 1, 1, 0, Op::kRelease);
  EXPECT_EQ(worker_->Enqueue({&end, 1}), 1u);
  EXPECT_FALSE(HungAt(last + kDeadline));
}

TEST_F(SlowWorker, MayTakeTheDeadlineForEachEventOfABurst) {
  for (int i = 0; i < 3; i++) Put(*producer_, queue_, 1, 1);
  ASSERT_EQ(Take(*worker_, 3).size(), 3u);
  const auto later = Clock::now();
  worker_->Release(1);
  EXPECT_FALSE(HungAt(later + kDeadline));
}

TEST_F(SlowWorker, ThatOnlyTakesMoreIsHung) {
  TakeOne();
  const auto later = Clock::now();
  TakeOne();
  EXPECT_TRUE(HungAt(later + kDeadline + std::chrono::nanoseconds(1)));
}

}  // namespace
}  // namespace spillway::dispatch

// SPDX-License-Identifier: Apache-2.0
// Credits: back-pressure instead of loss, and no way to deadlock.
#include "dispatch/native/credit_pool.h"
#include "domain_bed.h"

namespace spillway::dispatch {
namespace {

class Credits : public DomainBed {
 protected:
  void SetUp() override {
    DomainOptions options;
    options.credits = 64;
    options.ports = 4;
    Open(options);
  }
  size_t Fill(Port& port, uint16_t queue) {
    size_t taken = 0;
    while (Put(port, queue, static_cast<uint32_t>(taken), taken) == 1) taken++;
    return taken;
  }
};

TEST_F(Credits, WithoutCreditsAProducerIsToldHowManyWereTaken) {
  const uint16_t queue = AddQueue(Kind::kAtomic);
  auto producer = AddPort();
  std::vector<Event> burst(100, MakeEvent(queue, 1, 1));
  EXPECT_EQ(producer->Enqueue(burst), 64u);
  EXPECT_EQ(producer->Enqueue(burst), 0u);
  EXPECT_EQ(producer->Statistics().refused_credit, 136u);
}

TEST_F(Credits, ComeBackWithReleases) {
  const uint16_t queue = AddQueue(Kind::kAtomic);
  auto producer = AddPort(), worker = AddPort({queue}, true);
  EXPECT_EQ(Fill(*producer, queue), 64u);
  while (!Take(*worker, 7).empty()) {
  }
  EXPECT_EQ(Fill(*producer, queue), 64u) << "an idle worker keeps none";
}

TEST_F(Credits, AForwardNeedsNoneEvenWhenAllAreOut) {
  for (Kind kind : {Kind::kAtomic, Kind::kOrdered, Kind::kUnordered}) {
    SetUp();
    const uint16_t first = AddQueue(kind), second = AddQueue(kind);
    auto producer = AddPort(), worker = AddPort({first, second}, false);
    EXPECT_EQ(Fill(*producer, first), 64u);
    for (int lap = 0; lap < 5; lap++) {
      // Round and round: all 64 credits are with events all the while.
      size_t forwarded = 0;
      while (forwarded < 64) {
        std::vector<Event> burst(16);
        burst.resize(worker->Dequeue(burst));
        ASSERT_FALSE(burst.empty());
        for (Event& event : burst) event.queue = event.queue == first ? second : first;
        ASSERT_EQ(worker->Enqueue(burst), burst.size());
        forwarded += burst.size();
      }
    }
    EXPECT_EQ(Put(*producer, first, 1, 1), 0u);
    worker.reset();
    producer.reset();
  }
}

TEST_F(Credits, OfAnOrderedEventThatEndedEarlyComeBackOnlyInItsTurn) {
  const uint16_t queue = AddQueue(Kind::kOrdered);
  auto producer = AddPort(), a = AddPort({queue}), b = AddPort({queue});
  EXPECT_EQ(Fill(*producer, queue), 64u);
  EXPECT_EQ(Take(*a, 1), Users{0});
  while (!Take(*b, 64).empty()) {
  }
  EXPECT_EQ(b->Release(64), 63u);
  EXPECT_TRUE(Take(*b).empty());
  EXPECT_EQ(Put(*producer, queue, 1, 1), 0u) << "63 tickets wait behind the first one";
  a->Release(1);
  EXPECT_TRUE(Take(*a).empty());
  EXPECT_EQ(Fill(*producer, queue), 64u);
}

TEST_F(Credits, AreAllThereWhenEverybodyHasLeft) {
  const uint16_t queue = AddQueue(Kind::kAtomic);
  auto producer = AddPort(), worker = AddPort({queue});
  Fill(*producer, queue);
  while (!Take(*worker, 64).empty()) worker->Release(20);
  worker.reset();
  producer.reset();
  EXPECT_EQ(domain_->Statistics().credits_free, 64u);
}

TEST(CreditPurse, KeepsAtMostItsQuantum) {
  CreditPool pool(100);
  CreditPurse purse(pool, 10);
  bool refilled = false;
  EXPECT_EQ(purse.Take(3, refilled), 3u);
  EXPECT_TRUE(refilled);
  EXPECT_EQ(pool.Free(), 90u);
  purse.Put(3);
  EXPECT_EQ(pool.Free(), 90u);
  purse.Put(1);
  EXPECT_EQ(pool.Free(), 101u) << "more than the quantum: all of it goes back";
}

}  // namespace
}  // namespace spillway::dispatch

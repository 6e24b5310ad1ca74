// SPDX-License-Identifier: Apache-2.0
// Workers that sleep are woken: no test here waits for time to pass, each ends because a wake-up came.
#include <poll.h>

#include <thread>

#include "domain_bed.h"

namespace spillway::dispatch {
namespace {

using namespace std::chrono_literals;

class Sleeping : public DomainBed {
 protected:
  void SetUp() override { Open(); }
  std::unique_ptr<Port> AddSleeper(std::vector<uint16_t> queues, bool event_fd = false) {
    PortOptions options;
    options.queues = std::move(queues);
    options.wait = Wait::kSleep;
    options.event_fd = event_fd;
    auto added = domain_->AddPort(options);
    EXPECT_TRUE(added);
    return std::move(*added);
  }
};

// Long enough that a lost wake-up fails the test by its time-out.
constexpr auto kForEver = 1h;

TEST_F(Sleeping, EachEventWakesItsWorker) {
  const uint16_t there = AddQueue(Kind::kAtomic), back = AddQueue(Kind::kDirected);
  auto producer = AddSleeper({back});
  constexpr uint64_t kRounds = 2000;
  std::thread echo([&] {
    auto worker = AddSleeper({there});
    for (uint64_t i = 0; i < kRounds; i++) {
      Event event;
      ASSERT_EQ(worker->Dequeue({&event, 1}, kForEver), 1u);
      event.queue = back;
      ASSERT_EQ(worker->Enqueue({&event, 1}), 1u);
    }
  });
  for (uint64_t i = 0; i < kRounds; i++) {
    ASSERT_EQ(Put(*producer, there, 1, i), 1u);
    Event event;
    ASSERT_EQ(producer->Dequeue({&event, 1}, kForEver), 1u);
    ASSERT_EQ(event.user, i);
  }
  echo.join();
}

TEST_F(Sleeping, WhatALeavingWorkerLeavesBehindWakesAnother) {
  const uint16_t queue = AddQueue(Kind::kAtomic);
  auto producer = AddPort();
  auto leaving = AddPort({queue});
  Put(*producer, queue, 1, 1);
  Put(*producer, queue, 1, 2);
  ASSERT_EQ(Take(*leaving, 1), Users{1});
  std::thread sleeper([&] {
    auto worker = AddSleeper({queue});
    Event event;
    EXPECT_EQ(worker->Dequeue({&event, 1}, kForEver), 1u);
    EXPECT_EQ(event.user, 2u);
  });
  leaving.reset();
  sleeper.join();
}

TEST_F(Sleeping, PatienceEnds) {
  const uint16_t queue = AddQueue(Kind::kUnordered);
  auto worker = AddSleeper({queue});
  Event event;
  EXPECT_EQ(worker->Dequeue({&event, 1}, 1ms), 0u);
}

TEST_F(Sleeping, AnArmedEventFdBecomesReadable) {
  const uint16_t queue = AddQueue(Kind::kUnordered);
  auto producer = AddPort();
  auto worker = AddSleeper({queue}, true);
  ASSERT_GE(worker->EventFd(), 0);
  ASSERT_TRUE(worker->Arm());
  Put(*producer, queue, 1, 1);
  pollfd waits = {worker->EventFd(), POLLIN, 0};
  ASSERT_EQ(poll(&waits, 1, -1), 1);
  EXPECT_FALSE(worker->Arm()) << "something is there already";
  EXPECT_EQ(Take(*worker), Users{1});
  EXPECT_TRUE(worker->Arm());
}

// What waits for another worker is nothing to stay awake for.
TEST_F(Sleeping, WhileItsFlowIsAtAnotherWorkerAnEventKeepsNobodyAwake) {
  const uint16_t queue = AddQueue(Kind::kAtomic);
  auto producer = AddPort(), busy = AddPort({queue});
  auto sleeper = AddSleeper({queue}, true);
  Put(*producer, queue, 1, 1);
  ASSERT_EQ(Take(*busy, 1), Users{1});
  Put(*producer, queue, 1, 2);
  Event event;
  EXPECT_EQ(sleeper->Dequeue({&event, 1}, 1ms), 0u);
  EXPECT_GT(sleeper->Statistics().slept, 0u);
  EXPECT_TRUE(sleeper->Arm()) << "there is nothing for it";
}

TEST_F(Sleeping, AFlowThatBecomesFreeWakesASleeper) {
  const uint16_t queue = AddQueue(Kind::kAtomic), other = AddQueue(Kind::kUnordered);
  auto producer = AddPort(), busy = AddPort({queue});
  auto sleeper = AddSleeper({queue}, true);
  for (int forwarded = 0; forwarded < 2; forwarded++) {
    Put(*producer, queue, 1, 1);
    ASSERT_EQ(Take(*busy, 1), Users{1});
    Put(*producer, queue, 1, 2);
    EXPECT_EQ(Take(*sleeper), Users{});
    ASSERT_TRUE(sleeper->Arm());
    // The worker does not come back for it: it ends its event and does something else.
    if (forwarded)
      EXPECT_EQ(Forward(*busy, other, 1, 1), 1u);
    else
      EXPECT_EQ(busy->Release(1), 1u);
    pollfd waits = {sleeper->EventFd(), POLLIN, 0};
    ASSERT_EQ(poll(&waits, 1, 10'000), 1) << "nobody was woken";
    EXPECT_EQ(Take(*sleeper), Users{2});
    sleeper->Release(1);
  }
}

TEST_F(Sleeping, AFlowThatBecomesFreeWhileItsWorkerIsBusyWithAnotherQueueWakesASleeper) {
  const uint16_t queue = AddQueue(Kind::kAtomic), other = AddQueue(Kind::kUnordered);
  auto producer = AddPort(), busy = AddPort({queue, other}, true);
  auto sleeper = AddSleeper({queue}, true);
  Put(*producer, queue, 1, 1);
  ASSERT_EQ(Take(*busy, 1), Users{1});
  Put(*producer, queue, 1, 2);
  Put(*producer, other, 1, 3);
  EXPECT_EQ(Take(*sleeper), Users{});
  ASSERT_TRUE(sleeper->Arm());
  ASSERT_EQ(Take(*busy, 1), Users{3}) << "this Dequeue has ended event 1";
  pollfd waits = {sleeper->EventFd(), POLLIN, 0};
  ASSERT_EQ(poll(&waits, 1, 10'000), 1) << "nobody was woken";
  EXPECT_EQ(Take(*sleeper), Users{2});
}

}  // namespace
}  // namespace spillway::dispatch

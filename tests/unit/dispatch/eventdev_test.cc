// SPDX-License-Identifier: Apache-2.0
// The engines over DPDK's event devices: what the API promises holds there too. One thread drives all ports.
#include <numeric>

#include "domain_bed.h"

namespace spillway::dispatch {
namespace {

class Eventdev : public DomainBed {
 protected:
  // Everything that `count` events of `flows` flows become at one worker, in the order in which it got them.
  Users Through(Port& producer, Port& worker, uint16_t queue, uint64_t count, uint32_t flows) {
    Users users;
    uint64_t sent = 0;
    // A scheduler that has not come by looks like an empty queue: a bounded number of looks, not a time.
    for (int looks = 0; looks < 100'000 && users.size() < count; looks++) {
      if (sent < count) sent += Put(producer, queue, static_cast<uint32_t>(sent) % flows, sent);
      if (sent == count) producer.Flush();
      const Users more = Take(worker, 32);
      users.insert(users.end(), more.begin(), more.end());
    }
    EXPECT_EQ(sent, count);
    return users;
  }
  static Users UpTo(uint64_t count) {
    Users users(count);
    std::iota(users.begin(), users.end(), 0);
    return users;
  }
};

TEST_F(Eventdev, SwDeliversAtomicOrderedAndDirectedInOrder) {
  for (Kind kind : {Kind::kAtomic, Kind::kOrdered, Kind::kDirected}) {
    ASSERT_NO_FATAL_FAILURE(Open({}, "event_sw"));
    const uint16_t queue = AddQueue(kind);
    auto producer = AddPort(), worker = AddPort({queue}, true);
    EXPECT_EQ(Through(*producer, *worker, queue, 10'000, 7), UpTo(10'000)) << ToString(kind);
    producer.reset();
    worker.reset();
    domain_.reset();
  }
}

TEST_F(Eventdev, SwForwardsWhatIsOrderedInTheOrderInWhichItWasHandedOut) {
  ASSERT_NO_FATAL_FAILURE(Open({}, "event_sw"));
  const uint16_t work = AddQueue(Kind::kOrdered), out = AddQueue(Kind::kDirected);
  auto producer = AddPort();
  std::unique_ptr<Port> workers[] = {AddPort({work}), AddPort({work})};
  auto sink = AddPort({out}, true);
  constexpr uint64_t kCount = 200;
  for (uint64_t i = 0; i < kCount; i++) ASSERT_EQ(Put(*producer, work, 1, i), 1u);
  Users users;
  Event bursts[2][8];
  for (int round = 0; round < 10'000 && users.size() < kCount; round++) {
    size_t got[2];
    for (int w : {0, 1}) got[w] = workers[w]->Dequeue(bursts[w]);
    // The later one first.
    for (int w : {1, 0}) {
      for (size_t i = 0; i < got[w]; i++) bursts[w][i].queue = out;
      ASSERT_EQ(workers[w]->Enqueue({bursts[w], got[w]}), got[w]);
    }
    const Users more = Take(*sink);
    users.insert(users.end(), more.begin(), more.end());
  }
  EXPECT_EQ(users, UpTo(kCount));
}

// DPDK has 16 event devices for a process, and 64 services.
TEST_F(Eventdev, SwCanBeOpenedManyTimesAndBeginsEmpty) {
  for (int turn = 0; turn < 80; turn++) {
    ASSERT_NO_FATAL_FAILURE(Open({}, "event_sw"));
    const uint16_t queue = AddQueue(turn % 2 == 0 ? Kind::kAtomic : Kind::kUnordered);
    auto producer = AddPort(), worker = AddPort({queue}, true);
    EXPECT_EQ(Through(*producer, *worker, queue, 100, 7), UpTo(100)) << turn;
    // Some stay behind.
    EXPECT_EQ(Put(*producer, queue, 1, 1'000), 1u);
    producer.reset();
    worker.reset();
    domain_.reset();
  }
}

TEST_F(Eventdev, DswDeliversAllAndSaysThatItHasNoOrderedQueues) {
  ASSERT_NO_FATAL_FAILURE(Open({}, "event_dsw"));
  QueueOptions ordered;
  ordered.kind = Kind::kOrdered;
  const auto refused = domain_->AddQueue(ordered);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kUnavailable);
  const uint16_t queue = AddQueue(Kind::kAtomic);
  auto producer = AddPort({}, true), worker = AddPort({queue}, true);
  EXPECT_EQ(Through(*producer, *worker, queue, 10'000, 1), UpTo(10'000));
}

TEST_F(Eventdev, OutOfCreditsTheEnqueueSaysHowManyItTook) {
  DomainOptions options;
  options.credits = 128;
  ASSERT_NO_FATAL_FAILURE(Open(options, "event_sw"));
  const uint16_t queue = AddQueue(Kind::kUnordered);
  auto producer = AddPort(), worker = AddPort({queue}, true);
  uint64_t taken = 0;
  while (taken < 1000 && Put(*producer, queue, 1, taken) == 1) taken++;
  EXPECT_GT(taken, 0u);
  EXPECT_LE(taken, 128u);
  size_t got = 0;
  for (int looks = 0; looks < 10'000 && got < taken; looks++) got += Take(*worker).size();
  EXPECT_EQ(got, taken);
}

TEST_F(Eventdev, QueuesAndPortsAreTakenUntilTheFirstEvent) {
  ASSERT_NO_FATAL_FAILURE(Open({}, "event_sw"));
  const uint16_t queue = AddQueue(Kind::kAtomic);
  auto producer = AddPort(), worker = AddPort({queue}, true);
  ASSERT_EQ(Put(*producer, queue, 1, 1), 1u);
  const auto late = domain_->AddPort({});
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(Put(*producer, 9, 1, 2), 0u) << "there is no queue 9";
  EXPECT_EQ(producer->Statistics().refused_bad, 1u);
}

}  // namespace
}  // namespace spillway::dispatch

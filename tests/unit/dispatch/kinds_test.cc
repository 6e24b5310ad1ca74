// SPDX-License-Identifier: Apache-2.0
// What each kind of queue promises, call by call.
#include <gmock/gmock.h>

#include "domain_bed.h"

namespace spillway::dispatch {
namespace {

class Kinds : public DomainBed {
 protected:
  void SetUp() override { Open(); }
};

TEST_F(Kinds, AnAtomicFlowIsAtOneWorkerAtATime) {
  const uint16_t queue = AddQueue(Kind::kAtomic);
  auto producer = AddPort(), a = AddPort({queue}), b = AddPort({queue});
  Put(*producer, queue, 1, 10);
  Put(*producer, queue, 1, 11);
  Put(*producer, queue, 2, 20);
  EXPECT_EQ(Take(*a, 1), Users{10});
  EXPECT_EQ(Take(*b), Users{20}) << "flow 1 is at the other worker, flow 2 goes ahead";
  a->Release(1);
  EXPECT_EQ(Take(*a), Users{11});
}

TEST_F(Kinds, AnIdleWorkerTakesOverAWholeFlow) {
  const uint16_t queue = AddQueue(Kind::kAtomic);
  auto producer = AddPort(), a = AddPort({queue}), b = AddPort({queue});
  for (uint64_t i = 10; i < 14; i++) Put(*producer, queue, 1, i);
  EXPECT_EQ(Take(*a, 1), Users{10});
  EXPECT_EQ(Take(*b), Users{}) << "set aside: the flow is at a";
  a->Release(1);
  EXPECT_EQ(Take(*b, 2), (Users{11, 12}));
  EXPECT_EQ(Take(*a), Users{}) << "what is left of the flow waits for b now";
  Put(*producer, queue, 1, 14);
  EXPECT_EQ(Take(*a), Users{}) << "and so does what comes later";
  b->Release(2);
  EXPECT_EQ(Take(*b), (Users{13, 14}));
  EXPECT_GT(domain_->Statistics().ports.flows_taken, 0u);
}

TEST_F(Kinds, ReleasingFreesTheOldestFlowFirst) {
  const uint16_t queue = AddQueue(Kind::kAtomic);
  auto producer = AddPort(), a = AddPort({queue}), b = AddPort({queue});
  for (uint32_t flow : {1, 2, 1, 2}) Put(*producer, queue, flow, flow);
  EXPECT_EQ(Take(*a, 2), (Users{1, 2}));
  a->Release(1);
  EXPECT_EQ(Take(*b), Users{1}) << "flow 2 is still held";
}

TEST_F(Kinds, FlowsOfAWorkerThatLeavesGoOnElsewhere) {
  const uint16_t queue = AddQueue(Kind::kAtomic);
  auto producer = AddPort(), a = AddPort({queue}), b = AddPort({queue});
  for (uint64_t i = 0; i < 3; i++) Put(*producer, queue, 1, i);
  EXPECT_EQ(Take(*a, 1), Users{0});
  EXPECT_EQ(Take(*b), Users{});
  a.reset();
  EXPECT_EQ(Take(*b), (Users{1, 2}));
}

TEST_F(Kinds, AWorkerThatJoinsTakesPart) {
  const uint16_t queue = AddQueue(Kind::kAtomic);
  auto producer = AddPort(), a = AddPort({queue});
  Put(*producer, queue, 1, 1);
  EXPECT_EQ(Take(*a, 1), Users{1});
  auto b = AddPort({queue});
  Put(*producer, queue, 2, 2);
  EXPECT_EQ(Take(*b), Users{2});
}

TEST_F(Kinds, OrderedEventsLeaveInTheOrderInWhichTheyWereHandedOut) {
  const uint16_t ordered = AddQueue(Kind::kOrdered), out = AddQueue(Kind::kDirected);
  auto producer = AddPort(), a = AddPort({ordered}), b = AddPort({ordered}), sink = AddPort({out}, true);
  for (uint64_t i = 0; i < 4; i++) Put(*producer, ordered, 0, i);
  EXPECT_EQ(Take(*a, 2), (Users{0, 1}));
  EXPECT_EQ(Take(*b, 1), Users{2});
  EXPECT_EQ(Take(*b, 1), Users{3});
  EXPECT_EQ(Forward(*b, out, 0, 2), 1u);
  EXPECT_EQ(Forward(*b, out, 0, 3), 1u);
  EXPECT_EQ(Take(*sink), Users{}) << "0 and 1 are not out yet";
  EXPECT_EQ(Forward(*a, out, 0, 0), 1u);
  EXPECT_EQ(Take(*sink), Users{0});
  a->Release(1);
  EXPECT_EQ(Take(*sink), (Users{2, 3})) << "1 ended, and holds nobody up";
}

// Were the ordered event's end taken for the atomic one's, the event behind it would wait for ever.
TEST_F(Kinds, EventsOfAnAtomicAndAnOrderedQueueEndEachAsItsOwn) {
  const uint16_t atomic = AddQueue(Kind::kAtomic), ordered = AddQueue(Kind::kOrdered),
                 out = AddQueue(Kind::kDirected);
  auto producer = AddPort(), a = AddPort({atomic, ordered}), b = AddPort({ordered}),
       sink = AddPort({out}, true);
  Put(*producer, atomic, 1, 0);
  EXPECT_EQ(Take(*a), Users{0});
  EXPECT_EQ(a->Release(1), 1u);
  for (uint64_t i = 1; i < 3; i++) Put(*producer, ordered, 1, i);
  EXPECT_EQ(Take(*a, 1), Users{1});
  EXPECT_EQ(Take(*b, 1), Users{2});
  EXPECT_EQ(Forward(*b, out, 1, 2), 1u);
  EXPECT_EQ(a->Release(1), 1u);
  EXPECT_EQ(Take(*sink), Users{2});
}

TEST_F(Kinds, OneReleaseEndsEventsOfTwoQueues) {
  const uint16_t atomic = AddQueue(Kind::kAtomic), ordered = AddQueue(Kind::kOrdered),
                 out = AddQueue(Kind::kDirected);
  auto producer = AddPort(), a = AddPort({atomic, ordered}), b = AddPort({atomic, ordered}),
       sink = AddPort({out}, true);
  Put(*producer, atomic, 1, 0);
  EXPECT_EQ(Take(*a), Users{0});
  for (uint64_t i = 1; i < 3; i++) Put(*producer, ordered, 1, i);
  Put(*producer, atomic, 1, 3);
  EXPECT_EQ(Take(*a, 1), Users{1});
  EXPECT_EQ(Take(*b, 1), Users{2}) << "3 is of the flow that is at the other worker";
  EXPECT_EQ(Forward(*b, out, 1, 2), 1u);
  EXPECT_EQ(a->Release(2), 2u);
  EXPECT_EQ(Take(*sink), Users{2}) << "1 has ended";
  EXPECT_EQ(Take(*b), Users{3}) << "0 has ended";
}

TEST_F(Kinds, UnorderedEventsGoToWhoeverAsks) {
  const uint16_t queue = AddQueue(Kind::kUnordered);
  auto producer = AddPort(), a = AddPort({queue}), b = AddPort({queue});
  for (uint64_t i = 0; i < 3; i++) Put(*producer, queue, 1, i);
  EXPECT_EQ(Take(*a, 1), Users{0});
  EXPECT_EQ(Take(*b, 1), Users{1});
  EXPECT_EQ(Take(*b, 1), Users{2});
}

TEST_F(Kinds, AForwardedEventKeepsItsFlowsOrderAcrossWorkers) {
  const uint16_t first = AddQueue(Kind::kAtomic), second = AddQueue(Kind::kAtomic);
  auto producer = AddPort(), a = AddPort({first}), b = AddPort({first}), c = AddPort({second}, true);
  for (uint64_t i = 0; i < 2; i++) Put(*producer, first, 1, i);
  EXPECT_EQ(Take(*a, 1), Users{0});
  EXPECT_EQ(Forward(*a, second, 1, 0), 1u);
  EXPECT_EQ(Take(*b, 1), Users{1});
  EXPECT_EQ(Forward(*b, second, 1, 1), 1u);
  EXPECT_EQ(Take(*c), (Users{0, 1}));
}

TEST_F(Kinds, ShardsKeepAFlowTogether) {
  const uint16_t queue = AddQueue(Kind::kAtomic, 4);
  auto producer = AddPort(), worker = AddPort({queue}, true);
  std::vector<Event> burst;
  for (uint64_t i = 0; i < 200; i++) burst.push_back(MakeEvent(queue, static_cast<uint32_t>(i % 10), i));
  ASSERT_EQ(producer->Enqueue(burst), burst.size());
  std::map<uint64_t, uint64_t> last;
  size_t seen = 0;
  for (Users users = Take(*worker); !users.empty(); users = Take(*worker)) {
    for (uint64_t user : users) {
      seen++;
      auto [at, first] = last.try_emplace(user % 10, user);
      if (!first) {
        EXPECT_LT(at->second, user);
      }
      at->second = user;
    }
  }
  EXPECT_EQ(seen, burst.size());
}

TEST_F(Kinds, HigherPrioritiesGoFirstButNobodyStarves) {
  const uint16_t queue = AddQueue(Kind::kUnordered);
  auto producer = AddPort(), worker = AddPort({queue}, true);
  Put(*producer, queue, 0, 700, 7);
  Put(*producer, queue, 0, 3, 3);
  Put(*producer, queue, 0, 1, 0);
  EXPECT_EQ(Take(*worker), (Users{1, 3, 700}));
  Put(*producer, queue, 0, 700, 7);
  for (uint64_t i = 0; i < 100; i++) Put(*producer, queue, 0, 1, 0);
  std::vector<uint64_t> seen;
  for (int i = 0; i < 16; i++) {
    for (uint64_t user : Take(*worker, 1)) seen.push_back(user);
  }
  EXPECT_THAT(seen, testing::Contains(700)) << "one pull in sixteen starts with the lowest";
}

TEST_F(Kinds, OneBurstMayForwardEndAndAddEvents) {
  const uint16_t first = AddQueue(Kind::kAtomic), second = AddQueue(Kind::kUnordered);
  auto producer = AddPort(), worker = AddPort({first}), sink = AddPort({second}, true);
  for (uint64_t i = 0; i < 3; i++) Put(*producer, first, 1, i);
  EXPECT_EQ(Take(*worker), (Users{0, 1, 2}));
  const Event ops[] = {MakeEvent(second, 1, 100, 0, Op::kForward), MakeEvent(0, 0, 0, 0, Op::kRelease),
                       MakeEvent(second, 1, 101, 0, Op::kNew), MakeEvent(second, 1, 102, 0, Op::kForward)};
  EXPECT_EQ(worker->Enqueue(ops), 4u);
  EXPECT_EQ(worker->Held(), 0u);
  EXPECT_EQ(Take(*sink), (Users{100, 101, 102}));
}

}  // namespace
}  // namespace spillway::dispatch

// SPDX-License-Identifier: Apache-2.0
// How workers share what waits: nobody takes more than a share, no shard and no window is left waiting.
#include <gmock/gmock.h>

#include <barrier>
#include <set>
#include <thread>

#include "domain_bed.h"

namespace spillway::dispatch {
namespace {

using namespace std::chrono_literals;

class Sharing : public DomainBed {
 protected:
  void SetUp() override {
    DomainOptions options;
    options.ports = 64;
    Open(options);
  }
  std::vector<std::unique_ptr<Port>> AddWorkers(uint16_t queue, size_t count) {
    std::vector<std::unique_ptr<Port>> workers;
    for (size_t i = 0; i < count; i++) workers.push_back(AddPort({queue}));
    return workers;
  }
};

TEST_F(Sharing, AWorkerTakesNoMoreThanItsShare) {
  for (Kind kind : {Kind::kAtomic, Kind::kOrdered, Kind::kUnordered}) {
    const uint16_t queue = AddQueue(kind);
    auto producer = AddPort();
    auto workers = AddWorkers(queue, 8);
    for (uint32_t i = 0; i < 32; i++) ASSERT_EQ(Put(*producer, queue, i * 0x01000193u, i), 1u);
    EXPECT_EQ(Take(*workers[0], 32).size(), 4u) << ToString(kind) << ": 32 wait for 8 workers";
    EXPECT_EQ(Take(*workers[1], 2).size(), 2u) << "and no more than it asked for";
    EXPECT_EQ(Take(*workers[2], 32).size(), 4u) << "26 are left: rounded up";
    EXPECT_EQ(Take(*workers[3], 32).size(), 3u);
  }
}

TEST_F(Sharing, AShareIsOfAllPrioritiesTogether) {
  const uint16_t queue = AddQueue(Kind::kUnordered);
  auto producer = AddPort();
  auto workers = AddWorkers(queue, 4);
  for (uint8_t priority = 0; priority < kPriorities; priority++) Put(*producer, queue, 1, priority, priority);
  EXPECT_EQ(Take(*workers[0]), (Users{0, 1}));
  EXPECT_EQ(Take(*workers[1]), (Users{2, 3}));
}

TEST_F(Sharing, TheLastOnesAreTakenToo) {
  const uint16_t queue = AddQueue(Kind::kAtomic);
  auto producer = AddPort();
  auto workers = AddWorkers(queue, 8);
  Put(*producer, queue, 1, 1);
  EXPECT_EQ(Take(*workers[5]), Users{1});
}

TEST_F(Sharing, UnderLoadBurstsAreFull) {
  const uint16_t queue = AddQueue(Kind::kAtomic);
  auto producer = AddPort();
  auto workers = AddWorkers(queue, 8);
  for (uint32_t i = 0; i < 512; i++) Put(*producer, queue, i * 0x01000193u, i);
  EXPECT_EQ(Take(*workers[0], 32).size(), 32u);
}

TEST_F(Sharing, AWorkerAloneTakesAll) {
  const uint16_t queue = AddQueue(Kind::kAtomic);
  auto producer = AddPort(), worker = AddPort({queue});
  for (uint32_t i = 0; i < 32; i++) Put(*producer, queue, i, i);
  EXPECT_EQ(Take(*worker, 32).size(), 32u);
}

// Each worker waits with what it got until all of them have something.
TEST_F(Sharing, ABurstWakesAsManySleepersAsItHasEvents) {
  const uint16_t queue = AddQueue(Kind::kUnordered);
  constexpr size_t kWorkers = 4;
  auto producer = AddPort();
  std::barrier ready(kWorkers + 1), all_have_one(kWorkers);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < kWorkers; i++) {
    threads.emplace_back([&] {
      PortOptions options;
      options.queues = {queue};
      options.wait = Wait::kSleep;
      auto worker = std::move(*domain_->AddPort(options));
      ready.arrive_and_wait();
      Event burst[32];
      EXPECT_EQ(worker->Dequeue(burst, 1h), 1u);
      all_have_one.arrive_and_wait();
    });
  }
  ready.arrive_and_wait();
  const std::vector<Event> burst(kWorkers, MakeEvent(queue, 1, 1));
  EXPECT_EQ(producer->Enqueue(burst), kWorkers);
  for (std::thread& thread : threads) thread.join();
}

// Of 64 flows, each always has an event waiting; a worker that takes them one by one must come to all.
void ComesToAllFlows(Port& producer, Port& worker, uint16_t queue, uint32_t flows) {
  for (uint32_t flow = 0; flow < flows; flow++) {
    const Event event = {.flow = flow, .queue = queue, .user = flow};
    ASSERT_EQ(producer.Enqueue({&event, 1}), 1u);
  }
  std::set<uint64_t> seen;
  for (uint32_t turn = 0; turn < 64 * flows && seen.size() < flows; turn++) {
    Event event;
    ASSERT_EQ(worker.Dequeue({&event, 1}), 1u);
    ASSERT_EQ(worker.Release(1), 1u);
    seen.insert(event.user);
    event.op = Op::kNew;
    ASSERT_EQ(producer.Enqueue({&event, 1}), 1u);
  }
  EXPECT_EQ(seen.size(), flows) << "the others starved";
}

TEST_F(Sharing, OneWorkerServesAllShards) {
  for (Kind kind : {Kind::kAtomic, Kind::kOrdered}) {
    const uint16_t queue = AddQueue(kind, 4);
    auto producer = AddPort(), worker = AddPort({queue});
    ComesToAllFlows(*producer, *worker, queue, 64);
  }
}

// The shards at which the others begin are not left to them: they may be at long work.
TEST_F(Sharing, TheShardsOfBusyWorkersAreServedByOthers) {
  const uint16_t queue = AddQueue(Kind::kAtomic, 4);
  auto producer = AddPort();
  auto workers = AddWorkers(queue, 8);
  for (auto& worker : workers) {
    SCOPED_TRACE(&worker - workers.data());
    ComesToAllFlows(*producer, *worker, queue, 64);
    while (!Take(*worker).empty()) worker->Release(64);
  }
}

}  // namespace
}  // namespace spillway::dispatch

// SPDX-License-Identifier: Apache-2.0
// What a domain refuses, and what it says of itself.
#include <gmock/gmock.h>

#include "domain_bed.h"

namespace spillway::dispatch {
namespace {

class DomainOpening : public DomainBed {};

TEST_F(DomainOpening, RefusesOptionsOutOfRangeByName) {
  DomainOptions options;
  options.credits = 63;
  EXPECT_THAT(Domain::Open("native", options).error().message, testing::HasSubstr("credits 63"));
  options = {};
  options.ports = 0;
  EXPECT_THAT(Domain::Open("native", options).error().message, testing::HasSubstr("ports 0"));
  options = {};
  options.starvation_guard = 1;
  EXPECT_THAT(Domain::Open("native", options).error().message, testing::HasSubstr("starvation_guard 1"));
  EXPECT_EQ(Domain::Open("hardware", {}).error().code, ErrorCode::kBadInput);
}

TEST_F(DomainOpening, RefusesQueuesThatCannotBe) {
  Open();
  QueueOptions options;
  options.shards = 3;
  EXPECT_EQ(domain_->AddQueue(options).error().code, ErrorCode::kBadInput);
  options.shards = 2;
  options.kind = Kind::kDirected;
  EXPECT_EQ(domain_->AddQueue(options).error().code, ErrorCode::kBadInput);
  options = {};
  options.on_occupancy = [](const Occupancy&) {};
  options.high = options.low = 5;
  EXPECT_EQ(domain_->AddQueue(options).error().code, ErrorCode::kBadInput);
}

TEST_F(DomainOpening, RefusesPortsThatCannotBe) {
  DomainOptions options;
  options.ports = 2;
  Open(options);
  const uint16_t directed = AddQueue(Kind::kDirected);
  PortOptions wanted;
  wanted.queues = {7};
  EXPECT_EQ(domain_->AddPort(wanted).error().code, ErrorCode::kBadInput);
  wanted.queues = {directed, directed};
  EXPECT_EQ(domain_->AddPort(wanted).error().code, ErrorCode::kBadInput);
  auto consumer = AddPort({directed});
  wanted.queues = {directed};
  EXPECT_EQ(domain_->AddPort(wanted).error().code, ErrorCode::kConflict);
  consumer.reset();
  consumer = AddPort({directed});
  auto producer = AddPort();
  EXPECT_EQ(domain_->AddPort({}).error().code, ErrorCode::kBadInput) << "opened for two ports";
}

TEST_F(DomainOpening, EventsWithoutAQueueOrPriorityAreNotTakenAndCounted) {
  Open();
  const uint16_t queue = AddQueue(Kind::kUnordered);
  auto port = AddPort();
  const Event events[] = {MakeEvent(queue, 1, 1), MakeEvent(queue + 1, 1, 2), MakeEvent(queue, 1, 3)};
  EXPECT_EQ(port->Enqueue(events), 1u);
  EXPECT_EQ(Put(*port, queue, 1, 4, kPriorities), 0u);
  EXPECT_EQ(port->Statistics().refused_bad, 2u);
  EXPECT_EQ(port->Statistics().enqueued, 1u);
}

TEST_F(DomainOpening, NobodyForwardsMoreThanItHolds) {
  Open();
  const uint16_t queue = AddQueue(Kind::kUnordered);
  auto port = AddPort({queue});
  EXPECT_EQ(Forward(*port, queue, 1, 1), 0u);
  EXPECT_EQ(port->Release(3), 0u);
  Put(*port, queue, 1, 1);
  EXPECT_EQ(Take(*port), Users{1});
  EXPECT_EQ(Forward(*port, queue, 1, 2), 1u);
  EXPECT_EQ(Forward(*port, queue, 1, 3), 0u);
  EXPECT_EQ(port->Statistics().refused_bad, 2u);
}

TEST_F(DomainOpening, StatisticsSayWhatWaitsAndKeepThoseOfPortsThatLeft) {
  Open();
  const uint16_t queue = AddQueue(Kind::kAtomic);
  auto producer = AddPort();
  for (uint64_t i = 0; i < 5; i++) Put(*producer, queue, 1, i);
  EXPECT_EQ(domain_->Statistics().queues[0].waiting, 5u);
  EXPECT_EQ(domain_->Statistics().queues[0].name, "atomic");
  producer.reset();
  EXPECT_EQ(domain_->Statistics().ports.enqueued, 5u);
}

TEST_F(DomainOpening, OccupancyCallsBackAtHighAndThenAtLow) {
  DomainOptions narrow;
  narrow.credits = 64;  // each burst goes to the pool, where occupancy is looked at
  Open(narrow);
  std::vector<std::pair<bool, uint64_t>> calls;
  QueueOptions options;
  options.kind = Kind::kUnordered;
  options.high = 10;
  options.low = 2;
  options.on_occupancy = [&](const Occupancy& at) { calls.emplace_back(at.above, at.waiting); };
  const uint16_t queue = AddQueue(options);
  auto producer = AddPort();
  auto worker = AddPort({queue});
  for (uint64_t i = 0; i < 32; i++) Put(*producer, queue, 1, i);
  ASSERT_EQ(calls.size(), 1u);
  EXPECT_TRUE(calls[0].first);
  EXPECT_GE(calls[0].second, 10u);
  for (int i = 0; i < 40; i++) {
    (void)Take(*worker, 1);
    worker->Release(1);
  }
  for (uint64_t i = 0; i < 2; i++) Put(*producer, queue, 1, i);
  ASSERT_EQ(calls.size(), 2u);
  EXPECT_FALSE(calls[1].first);
  EXPECT_LE(calls[1].second, 2u);
}

}  // namespace
}  // namespace spillway::dispatch

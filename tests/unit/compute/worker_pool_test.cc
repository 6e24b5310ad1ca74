// SPDX-License-Identifier: Apache-2.0
#include "lab/compute/worker_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gated_computation.h"
#include "lab/unit/clock.h"

namespace spillway::compute {
namespace {

using testing::ElementsAre;
using testing::UnorderedElementsAre;

std::unique_ptr<WorkerPool> Start(Gate& gate, std::size_t workers, std::size_t queue_limit) {
  auto pool = WorkerPool::Start({workers, queue_limit}, std::make_unique<GatedComputation>(gate));
  EXPECT_TRUE(pool) << pool.error().message;
  return std::move(*pool);
}

TEST(WorkerPool, ServesInOrderOfArrival) {
  Gate gate;
  const auto pool = Start(gate, 1, 100);
  std::vector<std::uint32_t> all;
  for (std::uint32_t question = 0; question < 50; ++question) {
    EXPECT_TRUE(pool->Take(JobOf(question)));
    gate.Open(question);
    all.push_back(question);
  }
  for (std::uint32_t question : all) EXPECT_EQ(AwaitDone(*pool).request.id, question);
  EXPECT_EQ(gate.started(), all);
}

TEST(WorkerPool, WorksOnAsManyAtATimeAsItHasWorkers) {
  Gate gate;
  const auto pool = Start(gate, 3, 100);
  for (std::uint32_t question = 0; question < 9; ++question) EXPECT_TRUE(pool->Take(JobOf(question)));
  gate.AwaitStarted(3);
  EXPECT_EQ(pool->Waiting(0), 6u);
  for (std::uint32_t question = 0; question < 9; ++question) gate.Open(question);
  for (int i = 0; i < 9; ++i) (void)AwaitDone(*pool);
  EXPECT_EQ(gate.most_at_a_time(), 3u);
}

TEST(WorkerPool, LosesARequestOnlyIfAllWorkersAreBusyAndTheQueueIsFull) {
  Gate gate;
  const auto pool = Start(gate, 2, 1);
  EXPECT_TRUE(pool->Take(JobOf(0)));
  EXPECT_TRUE(pool->Take(JobOf(1)));
  EXPECT_TRUE(pool->Take(JobOf(2)));
  EXPECT_FALSE(pool->Take(JobOf(3)));
  gate.Open(1);
  EXPECT_EQ(AwaitDone(*pool).request.id, 1u);
  EXPECT_TRUE(pool->Take(JobOf(4)));
  EXPECT_FALSE(pool->Take(JobOf(5)));
}

TEST(WorkerPool, AnAnswerCarriesTheResultAndWhatItCost) {
  Gate gate;
  const auto pool = Start(gate, 1, 10);
  unit::Job job = JobOf(7);
  job.bytes = "payload";
  job.arrived_ns = unit::MonotonicNs();
  const std::int64_t arrived = job.arrived_ns;
  EXPECT_TRUE(pool->Take(std::move(job)));
  gate.Open(7);
  const unit::Job done = AwaitDone(*pool);
  EXPECT_EQ(done.result, 1007u);
  EXPECT_EQ(done.bytes, "payload");
  EXPECT_GE(done.wait_ns, 0);
  EXPECT_GT(done.service_ns, 0);
  EXPECT_EQ(done.due_ns, arrived + done.wait_ns + done.service_ns);
}

TEST(WorkerPool, TellsOfWhatIsDoneUntilAllIsTaken) {
  Gate gate;
  const auto pool = Start(gate, 1, 10);
  EXPECT_FALSE(SaysDone(*pool));
  for (std::uint32_t question : {1u, 2u}) {
    gate.Open(question);
    EXPECT_TRUE(pool->Take(JobOf(question)));
  }
  (void)AwaitDone(*pool);
  (void)AwaitDone(*pool);
  EXPECT_FALSE(pool->TakeDone(0).has_value());
  EXPECT_FALSE(SaysDone(*pool));
}

TEST(WorkerPool, EndsThoughJobsWaitAndAreInService) {
  Gate gate;
  auto pool = Start(gate, 2, 10);
  for (std::uint32_t question = 0; question < 5; ++question) EXPECT_TRUE(pool->Take(JobOf(question)));
  gate.AwaitStarted(2);
  pool.reset();
  EXPECT_THAT(gate.started(), UnorderedElementsAre(0, 1));
}

}  // namespace
}  // namespace spillway::compute

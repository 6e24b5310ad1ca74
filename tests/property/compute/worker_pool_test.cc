// SPDX-License-Identifier: Apache-2.0
// The pool against a plain model of a queue with k workers, over random arrivals and ends of service.
#include "lab/compute/worker_pool.h"

#include <gtest/gtest.h>

#include <random>

#include "tests/unit/compute/gated_computation.h"

namespace spillway::compute {
namespace {

struct Model {
  std::size_t workers, limit;
  std::deque<std::uint32_t> waiting = {};
  std::vector<std::uint32_t> in_service = {}, started = {};

  bool Take(std::uint32_t question) {
    if (in_service.size() == workers && waiting.size() == limit) return false;
    waiting.push_back(question);
    Start();
    return true;
  }
  void End(std::size_t index) {
    in_service.erase(in_service.begin() + static_cast<std::ptrdiff_t>(index));
    Start();
  }

 private:
  void Start() {
    while (in_service.size() < workers && !waiting.empty()) {
      in_service.push_back(waiting.front());
      started.push_back(waiting.front());
      waiting.pop_front();
    }
  }
};

TEST(WorkerPool, AgreesWithAPlainModelOfAQueue) {
  for (unsigned seed = 0; seed < 30; ++seed) {
    std::mt19937_64 random(seed);
    Model model{1 + random() % 4, random() % 5};
    Gate gate;
    auto pool = WorkerPool::Start({model.workers, model.limit}, std::make_unique<GatedComputation>(gate));
    ASSERT_TRUE(pool) << pool.error().message;
    for (std::uint32_t question = 0; question < 200; ++question) {
      if (random() % 2 == 0 || model.in_service.empty()) {
        ASSERT_EQ((*pool)->Take(JobOf(question)), model.Take(question))
            << "seed " << seed << ", " << question;
      } else {
        const std::size_t index = random() % model.in_service.size();
        const std::uint32_t ending = model.in_service[index];
        gate.Open(ending);
        const unit::Job done = AwaitDone(**pool);
        ASSERT_EQ(done.request.id, ending) << "seed " << seed;
        ASSERT_EQ(done.result, ending + 1000u);
        model.End(index);
      }
      ASSERT_EQ((*pool)->Waiting(0), model.waiting.size()) << "seed " << seed << ", " << question;
    }
    gate.AwaitStarted(model.started.size());
    // Two threads may tell the gate in another order than that in which they took their jobs.
    if (model.workers == 1) {
      EXPECT_EQ(gate.started(), model.started) << "seed " << seed;
    }
    EXPECT_LE(gate.most_at_a_time(), model.workers);
  }
}

}  // namespace
}  // namespace spillway::compute

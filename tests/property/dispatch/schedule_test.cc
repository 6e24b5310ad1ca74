// SPDX-License-Identifier: Apache-2.0
// Random schedules of calls against a sequential reference: one thread drives all ports, so every schedule
// can be replayed from its seed. Workers join, leave and hang; events are forwarded, ended, and added in the
// middle.
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <vector>

#include "dispatch/domain.h"

namespace spillway::dispatch {
namespace {

struct Plan {
  Kind kind;
  uint16_t shards;
  bool hangs;
  uint32_t seed;
};

// What must be true of one queue under test (`work`) and a directed one behind it (`out`).
class Schedule {
 public:
  explicit Schedule(const Plan& plan) : plan_(plan), random_(plan.seed) {
    DomainOptions options;
    options.credits = kCredits;
    options.ports = 12;
    if (plan.hangs) options.deadline = std::chrono::nanoseconds(1);
    domain_ = std::move(*Domain::Open("native", options));
    QueueOptions work;
    work.kind = plan.kind;
    work.shards = plan.shards;
    work_ = *domain_->AddQueue(work);
    QueueOptions out;
    out.kind = Kind::kDirected;
    out_ = *domain_->AddQueue(out);
    producers_.push_back(Join({}));
    producers_.push_back(Join({}));
    // The sink never holds anything between two calls, so it cannot hang.
    sink_ = Join({out_});
  }

  void Run(int steps) {
    for (int i = 0; i < steps && !testing::Test::HasFailure(); i++) Step();
    while (!testing::Test::HasFailure() && !pending_.empty()) Drain();
    workers_.clear();
    producers_.clear();
    sink_.reset();
    if (!testing::Test::HasFailure()) {
      for (const auto& [flow, users] : expected_out_) {
        for (uint64_t user : users) EXPECT_TRUE(ended_.contains(user)) << user << " never left";
      }
      EXPECT_EQ(domain_->Statistics().credits_free, kCredits) << "credits are conserved";
    }
  }

 private:
  static constexpr uint32_t kCredits = 96, kFlows = 7;

  struct Worker {
    std::unique_ptr<Port> port;
    std::deque<Event> held;
  };

  std::unique_ptr<Port> Join(std::vector<uint16_t> queues) {
    PortOptions options;
    options.queues = std::move(queues);
    options.implicit_release = false;
    return std::move(*domain_->AddPort(options));
  }
  uint32_t Below(uint32_t bound) { return static_cast<uint32_t>(random_() % bound); }

  void Step() {
    switch (Below(12)) {
      case 0:
      case 1:
      case 2:
        return Produce();
      case 3:
      case 4:
      case 5:
        return Dequeue();
      case 6:
      case 7:
      case 8:
        return FinishSome();
      case 9:
        return Sink();
      case 10:
        if (Below(8) == 0 && workers_.size() < 6) workers_.push_back({Join({work_}), {}});
        return;
      case 11:
        if (Below(16) == 0) return Leave();
        if (Below(16) == 0 && plan_.hangs) return Hang();
        return;
    }
  }

  void Produce() {
    std::vector<Event> burst(1 + Below(12));
    for (Event& event : burst) {
      event.queue = work_;
      event.flow = Below(kFlows) * 0x01000193u;
      event.user = next_user_++;
    }
    Port& port = *producers_[Below(2)];
    const size_t taken = port.Enqueue(burst);
    ASSERT_LE(pending_.size() + taken, kCredits) << "more events in the domain than credits";
    for (size_t i = 0; i < taken; i++) {
      pending_.insert(burst[i].user);
      waiting_[burst[i].flow].push_back(burst[i].user);
    }
  }

  void Dequeue() {
    if (workers_.empty()) return;
    Worker& worker = workers_[Below(static_cast<uint32_t>(workers_.size()))];
    std::vector<Event> burst(1 + Below(12));
    burst.resize(worker.port->Dequeue(burst));
    for (const Event& event : burst) {
      ASSERT_TRUE(pending_.contains(event.user)) << "an event that is not there, or a second time";
      auto& waiting = waiting_[event.flow];
      const auto at = std::find(waiting.begin(), waiting.end(), event.user);
      ASSERT_NE(at, waiting.end()) << "handed out twice";
      if (plan_.kind == Kind::kAtomic) {
        ASSERT_EQ(at, waiting.begin()) << "out of its flow's order";
        for (const Worker& other : workers_) {
          if (&other == &worker) continue;
          for (const Event& held : other.held) ASSERT_NE(held.flow, event.flow) << "at two workers at once";
        }
      }
      waiting.erase(at);
      worker.held.push_back(event);
      // Handed out again after a hang: it keeps its first turn.
      if (plan_.kind == Kind::kOrdered && !turn_.contains(event.user)) {
        turn_.insert(event.user);
        expected_out_[plan_.shards == 1 ? 0 : event.flow].push_back(event.user);
      }
    }
    ASSERT_EQ(worker.port->Held(), worker.held.size());
  }

  void FinishSome() {
    if (workers_.empty()) return;
    Worker& worker = workers_[Below(static_cast<uint32_t>(workers_.size()))];
    Finish(worker, Below(static_cast<uint32_t>(worker.held.size()) + 1));
  }

  void Finish(Worker& worker, size_t count) {
    std::vector<Event> ops;
    for (size_t i = 0; i < count; i++) {
      Event event = worker.held.front();
      worker.held.pop_front();
      if (Below(4) == 0) {
        event.op = Op::kRelease;
        pending_.erase(event.user);
        ended_.insert(event.user);
      } else {
        event.op = Op::kForward;
        event.queue = out_;
        forwarded_[event.flow].push_back(event.user);
      }
      ops.push_back(event);
    }
    ASSERT_EQ(worker.port->Enqueue(ops), ops.size()) << "forward and release wait for nothing";
  }

  void Sink() {
    std::vector<Event> burst(1 + Below(20));
    burst.resize(sink_->Dequeue(burst));
    for (const Event& event : burst) {
      ASSERT_EQ(pending_.erase(event.user), 1u) << "lost or twice";
      if (plan_.kind == Kind::kOrdered) {
        auto& expected = expected_out_[plan_.shards == 1 ? 0 : event.flow];
        while (!expected.empty() && ended_.contains(expected.front())) expected.pop_front();
        ASSERT_FALSE(expected.empty());
        ASSERT_EQ(expected.front(), event.user) << "left out of turn";
        expected.pop_front();
      } else if (plan_.kind == Kind::kAtomic) {
        ASSERT_EQ(forwarded_[event.flow].front(), event.user) << "overtaken behind an atomic queue";
        forwarded_[event.flow].pop_front();
      }
    }
    ASSERT_EQ(sink_->Release(burst.size()), burst.size());
  }

  // Its held events are ended by leaving.
  void Leave() {
    if (workers_.empty()) return;
    const size_t at = Below(static_cast<uint32_t>(workers_.size()));
    for (const Event& event : workers_[at].held) {
      pending_.erase(event.user);
      ended_.insert(event.user);
    }
    workers_.erase(workers_.begin() + static_cast<ptrdiff_t>(at));
  }

  // With a deadline of a nanosecond, every worker that holds something is hung.
  void Hang() {
    size_t held = 0;
    for (const Worker& worker : workers_) held += worker.held.size();
    ASSERT_EQ(domain_->HandOnHung(), held);
    for (auto worker = workers_.rbegin(); worker != workers_.rend(); ++worker) {
      ASSERT_EQ(worker->port->Lost(), !worker->held.empty());
      for (auto event = worker->held.rbegin(); event != worker->held.rend(); ++event)
        waiting_[event->flow].push_front(event->user);
    }
    std::erase_if(workers_, [](const Worker& worker) { return worker.port->Lost(); });
  }

  void Drain() {
    if (workers_.empty()) workers_.push_back({Join({work_}), {}});
    const size_t before = pending_.size();
    for (int i = 0; i < 50; i++) {
      Dequeue();
      FinishSome();
      Sink();
    }
    for (Worker& worker : workers_) Finish(worker, worker.held.size());
    Sink();
    stuck_ = pending_.size() == before ? stuck_ + 1 : 0;
    ASSERT_LT(stuck_, 20) << pending_.size() << " events are lost";
  }

  const Plan plan_;
  std::mt19937 random_;
  std::unique_ptr<Domain> domain_;
  uint16_t work_ = 0, out_ = 0;
  std::vector<std::unique_ptr<Port>> producers_;
  std::vector<Worker> workers_;
  std::unique_ptr<Port> sink_;

  uint64_t next_user_ = 1;
  int stuck_ = 0;
  std::set<uint64_t> pending_;  // in the domain
  std::set<uint64_t> ended_;
  std::set<uint64_t> turn_;
  std::map<uint32_t, std::deque<uint64_t>> waiting_;       // by flow, not handed out
  std::map<uint32_t, std::deque<uint64_t>> forwarded_;     // by flow, in the order of forwarding
  std::map<uint32_t, std::deque<uint64_t>> expected_out_;  // of ordered queues: by turn
};

// One thread: ThreadSanitizer has nothing to find here, and takes its time.
#if defined(__SANITIZE_THREAD__)
constexpr uint32_t kSeeds = 4;
#else
constexpr uint32_t kSeeds = 60;
#endif

class RandomSchedules : public testing::TestWithParam<std::tuple<Kind, int, bool>> {};

TEST_P(RandomSchedules, KeepWhatTheKindPromises) {
  const auto [kind, shards, hangs] = GetParam();
  for (uint32_t seed = 1; seed <= kSeeds; seed++) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Schedule({kind, static_cast<uint16_t>(shards), hangs, seed}).Run(3000);
    if (HasFailure()) return;
  }
}

std::string NameOf(const testing::TestParamInfo<std::tuple<Kind, int, bool>>& param) {
  const auto [kind, shards, hangs] = param.param;
  return std::string(ToString(kind)) + std::to_string(shards) + (hangs ? "Hanging" : "");
}

INSTANTIATE_TEST_SUITE_P(Kinds, RandomSchedules,
                         testing::Combine(testing::Values(Kind::kAtomic, Kind::kOrdered, Kind::kUnordered),
                                          testing::Values(1, 4), testing::Bool()),
                         NameOf);

}  // namespace
}  // namespace spillway::dispatch

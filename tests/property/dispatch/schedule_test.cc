// SPDX-License-Identifier: Apache-2.0
// Random schedules of calls against a sequential reference: one thread drives all ports, so every schedule
// can be replayed from its seed. Workers join, leave and hang; events are forwarded, ended, and added in the
// middle; remote producers put theirs into a window, die, also in the middle of a burst, and are replaced.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <vector>

#include "dispatch/domain.h"
#include "dispatch/remote_producer.h"

namespace spillway::dispatch {
namespace {

struct Plan {
  Kind kind;
  uint16_t shards;
  bool hangs;
  bool remote;  // one shard then
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
    if (plan.remote) {
      window_ = *domain_->OpenWindow({.queue = work_, .rings = kRings, .slots = 64, .priorities = 2});
      for (uint32_t ring = 0; ring < kRings; ring++) StartRemote(ring);
    }
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
  static constexpr uint32_t kCredits = 96, kFlows = 7, kRings = 2;
  static constexpr uint32_t kRemoteFlows = 100;  // from here on

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
        if (Below(4) == 0 && plan_.remote) return DieRemote(Below(kRings));
        return;
    }
  }

  // Some flows are urgent: order is per flow, as a flow has one priority here.
  static uint8_t PriorityOf(uint32_t flow) { return flow % 3 == 0; }

  void StartRemote(uint32_t ring) {
    auto mapped = RemoteProducer::Map(window_->Fd(), ring);
    ASSERT_TRUE(mapped) << mapped.error().message;
    remote_[ring] = std::move(*mapped);
  }
  // Each ring has flows of its own: of a flow in two rings nobody knows the order.
  void ProduceRemotely() {
    const uint32_t ring = Below(kRings);
    std::vector<Event> burst(1 + Below(12));
    for (Event& event : burst) {
      event.flow = kRemoteFlows + 2 * Below(2) + ring;
      event.priority = PriorityOf(event.flow);
      event.user = next_user_++;
    }
    const size_t taken = remote_[ring]->Enqueue(burst);
    places_[ring] += taken;
    remote_waiting_ += taken;
    for (size_t i = 0; i < taken; i++) {
      pending_.insert(burst[i].user);
      waiting_[burst[i].flow].push_back(burst[i].user);
    }
  }
  // Killed between two bursts, or having written the last events of one and not its first.
  void DieRemote(uint32_t ring) {
    auto* const memory = static_cast<char*>(window_->memory());
    const auto& words = *reinterpret_cast<const WindowWords*>(memory);
    Slot* const slots = reinterpret_cast<Slot*>(memory + kWindowRingsOffset) + size_t{ring} * 64;
    const uint64_t granted = words.rings[ring].granted.load();
    for (uint64_t place = places_[ring] + 1 + Below(4); place < granted && Below(6) != 0; place++) {
      slots[place % 64].user.store(next_user_++);
      slots[place % 64].meta.store(LapOf(place, 6) | uint64_t{work_} << 32 | kRemoteFlows);
    }
    remote_[ring].reset();
    StartRemote(ring);
  }

  void Produce() {
    if (plan_.remote && Below(2) == 0) return ProduceRemotely();
    std::vector<Event> burst(1 + Below(12));
    for (Event& event : burst) {
      event.queue = work_;
      event.flow = Below(kFlows) * 0x01000193u;
      event.priority = plan_.remote ? PriorityOf(event.flow) : 0;
      event.user = next_user_++;
    }
    Port& port = *producers_[Below(2)];
    const size_t taken = port.Enqueue(burst);
    ASSERT_LE(pending_.size() - remote_waiting_ + taken, kCredits)
        << "more events in the domain than credits";
    for (size_t i = 0; i < taken; i++) {
      pending_.insert(burst[i].user);
      waiting_[burst[i].flow].push_back(burst[i].user);
    }
  }

  void Dequeue() {
    if (workers_.empty()) return;
    Worker& worker = workers_[Below(static_cast<uint32_t>(workers_.size()))];
    std::vector<Event> burst(1 + Below(12));
    size_t all = 0;
    for (const auto& [flow, users] : waiting_) all += users.size();
    burst.resize(worker.port->Dequeue(burst));
    // Of an atomic queue, what was set aside for a worker is for nobody else, however much.
    if (plan_.kind != Kind::kAtomic && plan_.shards == 1) {
      ASSERT_LE(burst.size(), (all + workers_.size() - 1) / workers_.size()) << "more than its share";
    }
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
      // Handed out again after a hang, it comes from here.
      if (event.flow >= kRemoteFlows && event.flow < kRemoteFlows + 4 && from_afar_.insert(event.user).second)
        remote_waiting_--;
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
        event.priority = 0;
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
  std::shared_ptr<Window> window_;
  std::array<std::unique_ptr<RemoteProducer>, kRings> remote_;
  std::array<uint64_t, kRings> places_{};  // filled by producers that lived on
  size_t remote_waiting_ = 0;              // in the window, or set aside
  std::set<uint64_t> from_afar_;           // taken out of it

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
    Schedule({kind, static_cast<uint16_t>(shards), hangs, false, seed}).Run(3000);
    if (HasFailure()) return;
  }
}

// Windows are for queues of one shard.
class RemoteSchedules : public testing::TestWithParam<std::tuple<Kind, int, bool>> {};

TEST_P(RemoteSchedules, KeepWhatTheKindPromises) {
  const auto [kind, shards, hangs] = GetParam();
  for (uint32_t seed = 1; seed <= kSeeds; seed++) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Schedule({kind, static_cast<uint16_t>(shards), hangs, true, seed}).Run(3000);
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
INSTANTIATE_TEST_SUITE_P(Kinds, RemoteSchedules,
                         testing::Combine(testing::Values(Kind::kAtomic, Kind::kOrdered, Kind::kUnordered),
                                          testing::Values(1), testing::Bool()),
                         NameOf);

}  // namespace
}  // namespace spillway::dispatch

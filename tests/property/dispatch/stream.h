// SPDX-License-Identifier: Apache-2.0
// Real threads push a stream of numbered events through a queue under test and out by a directed one, and
// check on the way what the kind promises. Workers come and go meanwhile. Used by the threads test and the
// soak test.
#pragma once

#include <atomic>
#include <cstdint>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "dispatch/domain.h"
#include "dispatch/remote_producer.h"

namespace spillway::dispatch {

struct StreamSetup {
  Kind kind = Kind::kAtomic;
  uint16_t shards = 1;
  int producers = 2;
  int workers = 3;
  bool come_and_go = true;
  bool remote = false;  // producers put into a window; one shard, and workers poll
  Wait wait = Wait::kPoll;
  uint64_t events = 100'000;
  uint32_t flows = 50;
  uint32_t credits = 256;
  uint32_t seed = 1;
};

class Stream {
 public:
  explicit Stream(const StreamSetup& setup)
      : setup_(setup), flows_(setup.flows * static_cast<uint32_t>(setup.producers)) {}

  // What was wrong first, or nothing.
  std::string Run() {
    DomainOptions options;
    options.credits = setup_.credits;
    options.ports = static_cast<uint16_t>(setup_.producers + setup_.workers + 2);
    domain_ = std::move(*Domain::Open("native", options));
    QueueOptions work;
    work.kind = setup_.kind;
    work.shards = setup_.shards;
    work_ = *domain_->AddQueue(work);
    QueueOptions out;
    out.kind = Kind::kDirected;
    out_ = *domain_->AddQueue(out);

    if (setup_.remote) {
      WindowOptions window;
      window.queue = work_;
      window.rings = static_cast<uint32_t>(setup_.producers);
      window.slots = 64;
      window_ = *domain_->OpenWindow(window);
    }
    std::vector<std::thread> threads;
    for (int i = 0; i < setup_.producers; i++) threads.emplace_back([this, i] { Produce(i); });
    for (int i = 0; i < setup_.workers; i++) threads.emplace_back([this, i] { Work(i); });
    Sink();
    done_ = true;
    for (std::thread& thread : threads) thread.join();
    const DomainStatistics statistics = domain_->Statistics();
    if (statistics.credits_free != setup_.credits)
      Wrong("credits: " + std::to_string(statistics.credits_free) + " of " + std::to_string(setup_.credits));
    return wrong_;
  }

 private:
  // There are more threads than cores: who polls and finds nothing steps back.
  size_t Look(Port& port, std::span<Event> into) const {
    if (setup_.wait == Wait::kSleep) return port.Dequeue(into, std::chrono::milliseconds(50));
    const size_t got = port.Dequeue(into);
    if (got == 0) std::this_thread::yield();
    return got;
  }

  // Plain words on purpose: that two workers never touch a flow's at once is what atomic queues promise, and
  // ThreadSanitizer watches them.
  struct alignas(64) Flow {
    uint64_t seen = 0;
    uint64_t ended = 0;
  };

  void Wrong(const std::string& what) {
    if (!failed_.exchange(true)) wrong_ = what;
  }

  std::unique_ptr<Port> Join(std::vector<uint16_t> queues) {
    PortOptions options;
    options.queues = std::move(queues);
    options.wait = setup_.wait;
    return std::move(*domain_->AddPort(options));
  }

  uint64_t Share(int producer) const {
    const uint64_t share = setup_.events / static_cast<uint64_t>(setup_.producers);
    return producer == 0 ? setup_.events - share * static_cast<uint64_t>(setup_.producers - 1) : share;
  }

  // user: the flow's count, from 1; of ordered queues the producer's. Every seventh is ended by the worker.
  static bool EndsAtWorker(uint64_t user) { return user % 7 == 0; }

  void Produce(int number) {
    auto port = setup_.remote ? nullptr : Join({});
    std::unique_ptr<RemoteProducer> remote;
    std::minstd_rand random(setup_.seed * 77 + static_cast<uint32_t>(number));
    std::vector<uint64_t> counts(setup_.flows);
    uint64_t sent = 0;
    while (sent < Share(number) && !failed_) {
      Event burst[32];
      const size_t size = std::min<uint64_t>(1 + random() % 32, Share(number) - sent);
      for (size_t i = 0; i < size; i++) {
        const auto flow = static_cast<uint32_t>(random() % setup_.flows);
        burst[i].queue = work_;
        burst[i].flow = static_cast<uint32_t>(number) * setup_.flows + flow;
        burst[i].user = setup_.kind == Kind::kAtomic || setup_.shards > 1 ? ++counts[flow] : sent + i + 1;
      }
      // Remote producers come and go, too: the next one goes on in the ring.
      if (setup_.remote && (!remote || random() % 100 == 0)) {
        remote.reset();
        remote = std::move(*RemoteProducer::Map(window_->Fd(), static_cast<uint32_t>(number)));
      }
      for (size_t done = 0; done < size && !failed_;) {
        const std::span<const Event> rest(burst + done, size - done);
        const size_t taken = remote ? remote->Enqueue(rest) : port->Enqueue(rest);
        if (taken == 0) std::this_thread::yield();
        done += taken;
      }
      sent += size;
    }
  }

  void Work(int number) {
    std::minstd_rand random(setup_.seed * 131 + static_cast<uint32_t>(number));
    while (!done_ && !failed_) {
      auto port = Join({work_});
      const uint64_t stay = setup_.come_and_go ? 1 + random() % 500 : ~0ULL;
      for (uint64_t i = 0; i < stay && !done_ && !failed_; i++) {
        Event burst[32];
        const size_t size = Look(*port, {burst, 1 + random() % 32});
        for (size_t e = 0; e < size; e++) {
          if (setup_.kind == Kind::kAtomic) {
            Flow& flow = flows_[burst[e].flow];
            if (++flow.seen != burst[e].user)
              Wrong("flow " + std::to_string(burst[e].flow) + ": got " + std::to_string(burst[e].user) +
                    " instead of " + std::to_string(flow.seen));
          }
          if (EndsAtWorker(burst[e].user)) {
            burst[e].op = Op::kRelease;
            ended_.fetch_add(1, std::memory_order_relaxed);
          } else {
            burst[e].queue = out_;
          }
        }
        if (port->Enqueue({burst, size}) != size) Wrong("a forward was refused");
      }
    }
  }

  void Sink() {
    auto port = Join({out_});
    const bool by_flow = setup_.kind == Kind::kAtomic || setup_.shards > 1;
    std::vector<uint64_t> last(by_flow ? flows_.size() : static_cast<size_t>(setup_.producers));
    uint64_t arrived = 0, sum = 0;
    while (arrived + ended_.load(std::memory_order_relaxed) < setup_.events && !failed_) {
      Event burst[64];
      const size_t size = Look(*port, burst);
      for (size_t e = 0; e < size; e++) {
        sum += burst[e].user;
        if (setup_.kind == Kind::kUnordered) continue;
        uint64_t& before = last[by_flow ? burst[e].flow : burst[e].flow / setup_.flows];
        // Those that ended at a worker are missing, and only those.
        uint64_t expected = before + 1;
        if (EndsAtWorker(expected)) expected++;
        if (burst[e].user != expected)
          Wrong("at the sink: got " + std::to_string(burst[e].user) + " instead of " +
                std::to_string(expected));
        before = burst[e].user;
      }
      arrived += size;
    }
    if (setup_.kind != Kind::kUnordered || setup_.shards > 1 || failed_) return;
    // Of unordered events each is there once: by their sum.
    uint64_t wanted = 0;
    for (int producer = 0; producer < setup_.producers; producer++) {
      for (uint64_t user = 1; user <= Share(producer); user++) wanted += EndsAtWorker(user) ? 0 : user;
    }
    if (sum != wanted) Wrong("the sum of all events is wrong");
  }

  const StreamSetup setup_;
  std::unique_ptr<Domain> domain_;
  uint16_t work_ = 0, out_ = 0;
  std::shared_ptr<Window> window_;
  std::vector<Flow> flows_;
  std::atomic<uint64_t> ended_{0};
  std::atomic<bool> done_{false}, failed_{false};
  std::string wrong_;
};

}  // namespace spillway::dispatch

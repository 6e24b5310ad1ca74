// SPDX-License-Identifier: Apache-2.0
#include "bench/dispatch/rig.h"

#include <fmt/format.h>

#if defined(SPILLWAY_HAVE_TBB)
#include <tbb/concurrent_queue.h>
#endif
#if defined(SPILLWAY_HAVE_MOODYCAMEL)
#include <concurrentqueue/concurrentqueue.h>
#endif
#include "bench/dispatch/ring_rig.h"
#include "dispatch/slot_ring.h"

namespace spillway::bench {
namespace {

using dispatch::Event;
using dispatch::Kind;

// Bounded like the others, by what is counted: an unbounded queue would measure the page allocator.
constexpr size_t kBound = 4096;

#if defined(SPILLWAY_HAVE_TBB)
using TbbQueue = tbb::concurrent_queue<Event>;
class TbbRig final : public Rig {
 public:
  explicit TbbRig(std::shared_ptr<TbbQueue> queue) : queue_(std::move(queue)) {}
  size_t Put(std::span<Event> events) override {
    if (queue_->unsafe_size() > kBound) return 0;
    for (const Event& event : events) queue_->push(event);
    return events.size();
  }
  size_t Get(std::span<Event> events) override {
    size_t got = 0;
    while (got < events.size() && queue_->try_pop(events[got])) got++;
    return got;
  }

 private:
  const std::shared_ptr<TbbQueue> queue_;
};
#endif

#if defined(SPILLWAY_HAVE_MOODYCAMEL)
using MoodycamelQueue = moodycamel::ConcurrentQueue<Event>;
class MoodycamelRig final : public Rig {
 public:
  explicit MoodycamelRig(std::shared_ptr<MoodycamelQueue> queue)
      : queue_(std::move(queue)), producer_(*queue_), consumer_(*queue_) {}
  size_t Put(std::span<Event> events) override {
    if (queue_->size_approx() > kBound) return 0;
    return queue_->enqueue_bulk(producer_, events.data(), events.size()) ? events.size() : 0;
  }
  size_t Get(std::span<Event> events) override {
    return queue_->try_dequeue_bulk(consumer_, events.data(), events.size());
  }

 private:
  const std::shared_ptr<MoodycamelQueue> queue_;
  moodycamel::ProducerToken producer_;
  alignas(dispatch::kCacheLine) moodycamel::ConsumerToken consumer_;  // changes with each Get
};
#endif

Kind KindOf(const std::string& word) {
  if (word == "ordered") return Kind::kOrdered;
  if (word == "unordered") return Kind::kUnordered;
  if (word == "directed") return Kind::kDirected;
  return Kind::kAtomic;
}

// Ends that share a queue.
template <class End, class Queue>
Crowd CrowdAt(const std::shared_ptr<Queue>& queue, size_t producers, size_t workers) {
  Crowd crowd;
  for (size_t i = 0; i < producers + workers; i++)
    (i < producers ? crowd.producers : crowd.workers).push_back(std::make_unique<End>(queue));
  return crowd;
}

}  // namespace

std::vector<RigKind> RigKinds() {
  std::vector<RigKind> kinds;
  for (const char* kind : {"atomic", "ordered", "unordered", "directed", "two-stage", "remote-shm"})
    kinds.push_back({"native", kind});
#if defined(SPILLWAY_HAVE_DPDK)
  for (const char* kind : {"atomic", "ordered", "unordered", "two-stage"})
    kinds.push_back({"event_sw", kind});
  for (const char* kind : {"atomic", "unordered", "two-stage"}) kinds.push_back({"event_dsw", kind});
  for (const char* kind : {"spsc", "mpmc", "distributor"}) kinds.push_back({"rte_ring", kind});
#endif
#if defined(SPILLWAY_HAVE_MOODYCAMEL)
  kinds.push_back({"moodycamel", "mpmc"});
#endif
#if defined(SPILLWAY_HAVE_TBB)
  kinds.push_back({"tbb", "mpmc"});
#endif
  return kinds;
}

Result<std::unique_ptr<Rig>> MakeRig(const RigKind& kind) {
#if defined(SPILLWAY_HAVE_TBB)
  if (kind.engine == "tbb") return std::make_unique<TbbRig>(std::make_shared<TbbQueue>());
#endif
#if defined(SPILLWAY_HAVE_MOODYCAMEL)
  if (kind.engine == "moodycamel")
    return std::make_unique<MoodycamelRig>(std::make_shared<MoodycamelQueue>(2 * kBound));
#endif
  if (kind.engine == "rte_ring") return MakeRingRig(kind.kind);
  if (kind.kind == "remote-shm") return MakeRemoteRig();
  DomainRigOptions options;
  options.queue.kind = KindOf(kind.kind);
  return MakeDomainRig(kind.engine, options, kind.kind == "two-stage");
}

std::vector<RigKind> CrowdKinds() {
  std::vector<RigKind> kinds;
  for (const char* kind : {"atomic", "atomic, sharded", "unordered", "unordered, sharded"})
    kinds.push_back({"native", kind});
#if defined(SPILLWAY_HAVE_DPDK)
  kinds.push_back({"event_sw", "atomic"});
  kinds.push_back({"event_dsw", "atomic"});
  kinds.push_back({"rte_ring", "mpmc"});
#endif
#if defined(SPILLWAY_HAVE_MOODYCAMEL)
  kinds.push_back({"moodycamel", "mpmc"});
#endif
#if defined(SPILLWAY_HAVE_TBB)
  kinds.push_back({"tbb", "mpmc"});
#endif
  return kinds;
}

Result<Crowd> MakeCrowd(const RigKind& kind, size_t producers, size_t workers) {
#if defined(SPILLWAY_HAVE_TBB)
  if (kind.engine == "tbb") return CrowdAt<TbbRig>(std::make_shared<TbbQueue>(), producers, workers);
#endif
#if defined(SPILLWAY_HAVE_MOODYCAMEL)
  if (kind.engine == "moodycamel")
    return CrowdAt<MoodycamelRig>(std::make_shared<MoodycamelQueue>(2 * kBound), producers, workers);
#endif
  if (kind.engine == "rte_ring") return MakeRingCrowd(producers, workers);
  return MakeDomainCrowd(kind, producers, workers);
}

}  // namespace spillway::bench

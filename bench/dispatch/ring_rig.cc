// SPDX-License-Identifier: Apache-2.0
#include "bench/dispatch/ring_rig.h"

#if defined(SPILLWAY_HAVE_DPDK)
#include <fmt/format.h>
#include <rte_errno.h>
#include <rte_ring.h>
#include <rte_ring_elem.h>

#include <atomic>

#include "dispatch/eventdev_domain.h"
#include "dispatch/slot_ring.h"

namespace spillway::bench {
namespace {

using dispatch::Event;

constexpr unsigned kSlots = 4096;

struct RingDeleter {
  void operator()(rte_ring* ring) const { rte_ring_free(ring); }
};
using Ring = std::unique_ptr<rte_ring, RingDeleter>;

Result<Ring> MakeRing(unsigned flags) {
  static std::atomic<int> made{0};
  Ring ring(rte_ring_create_elem(fmt::format("spillway{}", made++).c_str(), sizeof(Event), kSlots,
                                 SOCKET_ID_ANY, flags));
  if (!ring)
    return Fail(ErrorCode::kUnavailable, fmt::format("rte_ring_create: {}", rte_strerror(rte_errno)));
  return ring;
}

class OneRing final : public Rig {
 public:
  OneRing(std::shared_ptr<rte_ring> ring, bool single) : ring_(std::move(ring)), single_(single) {}
  size_t Put(std::span<Event> events) override {
    const auto count = static_cast<unsigned>(events.size());
    return single_
               ? rte_ring_sp_enqueue_burst_elem(ring_.get(), events.data(), sizeof(Event), count, nullptr)
               : rte_ring_mp_enqueue_burst_elem(ring_.get(), events.data(), sizeof(Event), count, nullptr);
  }
  size_t Get(std::span<Event> events) override {
    const auto count = static_cast<unsigned>(events.size());
    return single_
               ? rte_ring_sc_dequeue_burst_elem(ring_.get(), events.data(), sizeof(Event), count, nullptr)
               : rte_ring_mc_dequeue_burst_elem(ring_.get(), events.data(), sizeof(Event), count, nullptr);
  }

 private:
  const std::shared_ptr<rte_ring> ring_;
  const bool single_;
};

// What a program would write by hand: the producer hashes each flow to a worker's ring. Flows never move, and
// a burst is split.
class Distributor final : public Rig {
 public:
  Distributor(Ring first, Ring second) : rings_{std::move(first), std::move(second)} {}
  size_t Put(std::span<Event> events) override {
    // All or nothing, so that what is left is not in two places.
    if (rte_ring_free_count(rings_[0].get()) < events.size() ||
        rte_ring_free_count(rings_[1].get()) < events.size())
      return 0;
    Event split[2][64];
    unsigned counts[2] = {};
    for (const Event& event : events) {
      const unsigned to = event.flow * 0x9E3779B1u >> 31;
      split[to][counts[to]++] = event;
    }
    for (int i = 0; i < 2; i++)
      rte_ring_sp_enqueue_burst_elem(rings_[i].get(), split[i], sizeof(Event), counts[i], nullptr);
    return events.size();
  }
  size_t Get(std::span<Event> events) override {
    next_ = !next_;
    return rte_ring_sc_dequeue_burst_elem(rings_[next_].get(), events.data(), sizeof(Event),
                                          static_cast<unsigned>(events.size()), nullptr);
  }

 private:
  const Ring rings_[2];
  alignas(dispatch::kCacheLine) bool next_ = false;  // changes with each Get
};

}  // namespace

Result<std::unique_ptr<Rig>> MakeRingRig(const std::string& kind) {
  if (const auto started = dispatch::StartDpdk(); !started) return tl::make_unexpected(started.error());
  const unsigned flags = kind == "mpmc" ? 0 : RING_F_SP_ENQ | RING_F_SC_DEQ;
  auto first = MakeRing(flags);
  if (!first) return tl::make_unexpected(first.error());
  if (kind != "distributor") return std::make_unique<OneRing>(std::move(*first), kind == "spsc");
  auto second = MakeRing(flags);
  if (!second) return tl::make_unexpected(second.error());
  return std::make_unique<Distributor>(std::move(*first), std::move(*second));
}

Result<Crowd> MakeRingCrowd(size_t producers, size_t workers) {
  if (const auto started = dispatch::StartDpdk(); !started) return tl::make_unexpected(started.error());
  auto made = MakeRing(0);
  if (!made) return tl::make_unexpected(made.error());
  const std::shared_ptr<rte_ring> ring = std::move(*made);
  Crowd crowd;
  for (size_t i = 0; i < producers + workers; i++)
    (i < producers ? crowd.producers : crowd.workers).push_back(std::make_unique<OneRing>(ring, false));
  return crowd;
}

}  // namespace spillway::bench
#else
namespace spillway::bench {

Result<std::unique_ptr<Rig>> MakeRingRig(const std::string&) {
  return Fail(ErrorCode::kUnavailable, "built without DPDK");
}
Result<Crowd> MakeRingCrowd(size_t, size_t) { return Fail(ErrorCode::kUnavailable, "built without DPDK"); }

}  // namespace spillway::bench
#endif

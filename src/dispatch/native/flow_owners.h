// SPDX-License-Identifier: Apache-2.0
// Which worker each flow of an atomic queue's shard is at, and the events set aside meanwhile. Used under the
// shard's lock, and needs no other.
//
// There may be any number of flows: they share `kBuckets` buckets by hash; what is said of a flow here holds
// for its bucket. Each event that a worker takes gets the worker's next sequence number, across all queues; a
// worker ends its events in that order and publishes how far it is (`completed`). A bucket remembers the last
// worker and its number there, so a bucket is *free* when that worker has completed that number, without a
// word written per event when it ends.
//
// Invariants, of each bucket:
//   - the events taken and not ended are all at one worker, its owner;
//   - no event is taken from the ring while earlier ones are set aside;
//   - events set aside are in one list, in order, and the bucket is in the waiting list of its owner (of
//   nobody, 0,
//     once the owner is gone). A worker may always take what waits for itself; another one takes the whole
//     flow, once it is free.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "dispatch/event.h"
#include "dispatch/slot_ring.h"

namespace spillway::dispatch {

inline constexpr int kMaxWorkers = 64;   // numbered 1 .. 64; 0 is nobody
inline constexpr int kMaxShardBits = 6;  // of a flow's hash, for the shards of a queue

// How far each worker is. One cache line each: the owner writes it once per burst.
struct alignas(kCacheLine) Completed {
  std::atomic<uint64_t> count{0};
};
using CompletedTable = std::array<Completed, kMaxWorkers + 1>;

// Spreads flows over shards by its upper bits, over a shard's buckets by its lower ones: even for flows that
// are numbered in turn, and by a domain's seed, so that who may choose flows' numbers cannot choose flows
// that wait for each other.
inline uint32_t FlowHash(uint32_t flow, uint32_t seed) {
  uint32_t hash = (flow ^ seed) * 0x9E3779B1u;
  hash ^= hash >> 15;
  return hash * 0x85EBCA6Bu;
}

class FlowOwners {
 public:
  FlowOwners(const CompletedTable& completed, uint32_t credits, uint32_t seed);

  uint32_t BucketOf(uint32_t flow) const {
    return FlowHash(flow, seed_) >> (32 - kMaxShardBits - kBucketBits) & (kBuckets - 1);
  }

  // The fast path of a worker that takes an event off the ring: true, and the event is the worker's under
  // number `sequence`, if the bucket was its own already or is free.
  bool Claim(uint32_t worker, uint64_t sequence, uint32_t bucket) {
    const uint64_t entry = buckets_[bucket];
    if (entry >> kSetAsideBit == uint64_t{worker} << 1 || Free(entry)) {
      buckets_[bucket] = EntryOf(worker, sequence);
      return true;
    }
    return false;
  }

  // Sets an event aside behind those of its bucket. Returns the bucket's owner, which it now waits for.
  // `counted`: where the events of its source that are set aside are counted, until each is taken.
  uint32_t SetAside(const Event& event, uint32_t* counted = nullptr);
  // The source goes: its events stay, and are counted no longer.
  void ForgetCount(const uint32_t* counted);

  // Gives events back to the front of their flows: of a worker that is gone, newest first. Nobody owns them
  // then.
  void GiveBack(const Event& event);

  // Moves events that wait for `owner` to `worker`, which may be the same, until `most`; numbers them from
  // sequence + 1. Returns how many; counts flows that changed hands in `flows_taken`.
  size_t TakeWaiting(uint32_t owner, uint32_t worker, uint64_t sequence, Event* into, size_t most,
                     uint64_t& flows_taken);

  // What waits for a worker that has left or is lost waits for nobody: the next to come takes it.
  void Abandon(uint32_t owner);

  // Whether `worker` (0: somebody) could take something of what is set aside, now.
  bool MayTake(uint32_t worker) const;

  bool Waits(uint32_t owner) const { return waiting_[owner].first != kNone; }
  // Owners 1 .. 64 that something waits for, by bit owner - 1.
  uint64_t WaitingMask() const { return waiting_mask_; }
  uint64_t waiting() const { return waiting_events_; }

 private:
  static constexpr int kBucketBits = 11;  // 2,048 buckets: 16 KiB, a third of a core's nearest cache
  static constexpr uint32_t kBuckets = 1u << kBucketBits;
  static constexpr uint32_t kNone = ~0u;
  // Of a bucket's entry: owner 56-63, set aside 55, sequence 0-54.
  static constexpr int kSetAsideBit = 55;
  static constexpr uint64_t kSetAside = 1ULL << kSetAsideBit;
  static uint64_t EntryOf(uint32_t worker, uint64_t sequence) {
    return uint64_t{worker} << 56 | (sequence & (kSetAside - 1));
  }
  static uint32_t OwnerOf(uint64_t entry) { return static_cast<uint32_t>(entry >> 56); }

  // Without regard to what is set aside.
  bool Done(uint64_t entry) const {
    return completed_[OwnerOf(entry)].count.load(std::memory_order_acquire) >= (entry & (kSetAside - 1));
  }
  bool Free(uint64_t entry) const { return !(entry & kSetAside) && Done(entry); }

  struct Chain {
    uint32_t first = kNone, last = kNone;
  };
  struct Node {
    Event event;
    uint32_t next;
    uint32_t* counted;
  };

  uint32_t NewNode(const Event& event, uint32_t* counted);
  void AppendBucket(uint32_t owner, uint32_t bucket);
  void RemoveBucket(uint32_t owner, uint32_t bucket, uint32_t before);

  const CompletedTable& completed_;
  std::unique_ptr<uint64_t[]> buckets_;  // kBuckets
  // Events set aside, each bucket's chain of nodes, and each owner's chain of buckets.
  std::vector<Chain> aside_;
  std::vector<uint32_t> next_bucket_;
  std::array<Chain, kMaxWorkers + 1> waiting_;
  uint64_t waiting_mask_ = 0, waiting_events_ = 0;
  std::vector<Node> nodes_;  // grows to at most the domain's credits
  uint32_t free_node_ = kNone;
  const uint32_t credits_;
  const uint32_t seed_;
};

}  // namespace spillway::dispatch

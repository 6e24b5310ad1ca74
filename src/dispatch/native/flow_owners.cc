// SPDX-License-Identifier: Apache-2.0
#include "dispatch/native/flow_owners.h"

#include <bit>
#include <utility>

namespace spillway::dispatch {

FlowOwners::FlowOwners(const CompletedTable& completed, uint32_t credits, uint32_t seed)
    : completed_(completed),
      buckets_(std::make_unique<uint64_t[]>(kBuckets)),
      aside_(kBuckets),
      next_bucket_(kBuckets, kNone),
      credits_(credits),
      seed_(seed) {}

uint32_t FlowOwners::NewNode(const Event& event, uint32_t* counted) {
  if (free_node_ == kNone) {
    // Within the credits there is room for all of them at once; no reallocation in the middle of traffic.
    if (nodes_.capacity() == 0) nodes_.reserve(credits_);
    nodes_.push_back({event, kNone, counted});
    return static_cast<uint32_t>(nodes_.size() - 1);
  }
  const uint32_t node = free_node_;
  free_node_ = nodes_[node].next;
  nodes_[node] = {event, kNone, counted};
  return node;
}

void FlowOwners::AppendBucket(uint32_t owner, uint32_t bucket) {
  Chain& chain = waiting_[owner];
  next_bucket_[bucket] = kNone;
  if (chain.first == kNone)
    chain.first = bucket;
  else
    next_bucket_[chain.last] = bucket;
  chain.last = bucket;
  if (owner != 0) waiting_mask_ |= 1ULL << (owner - 1);
}

void FlowOwners::RemoveBucket(uint32_t owner, uint32_t bucket, uint32_t before) {
  Chain& chain = waiting_[owner];
  if (before == kNone)
    chain.first = next_bucket_[bucket];
  else
    next_bucket_[before] = next_bucket_[bucket];
  if (chain.last == bucket) chain.last = before;
  if (chain.first == kNone && owner != 0) waiting_mask_ &= ~(1ULL << (owner - 1));
}

uint32_t FlowOwners::SetAside(const Event& event, uint32_t* counted) {
  const uint32_t bucket = BucketOf(event.flow);
  const uint32_t owner = OwnerOf(buckets_[bucket]);
  const uint32_t node = NewNode(event, counted);
  if (counted != nullptr) ++*counted;
  Chain& chain = aside_[bucket];
  if (chain.first == kNone) {
    chain.first = node;
    buckets_[bucket] |= kSetAside;
    AppendBucket(owner, bucket);
  } else {
    nodes_[chain.last].next = node;
  }
  chain.last = node;
  waiting_events_++;
  return owner;
}

void FlowOwners::ForgetCount(const uint32_t* counted) {
  for (Node& node : nodes_)
    if (node.counted == counted) node.counted = nullptr;
}

void FlowOwners::GiveBack(const Event& event) {
  const uint32_t bucket = BucketOf(event.flow);
  Chain& chain = aside_[bucket];
  if (chain.first != kNone && OwnerOf(buckets_[bucket]) != 0) Abandon(OwnerOf(buckets_[bucket]));
  const uint32_t node = NewNode(event, nullptr);
  nodes_[node].next = chain.first;
  if (chain.first == kNone) {
    chain.last = node;
    AppendBucket(0, bucket);
  }
  chain.first = node;
  buckets_[bucket] = kSetAside;
  waiting_events_++;
}

size_t FlowOwners::TakeWaiting(uint32_t owner, uint32_t worker, uint64_t sequence, Event* into, size_t most,
                               uint64_t& flows_taken) {
  size_t taken = 0;
  while (taken < most && waiting_[owner].first != kNone) {
    const uint32_t bucket = waiting_[owner].first;
    const uint64_t entry = buckets_[bucket];
    // An owner completes in the order in which it took, so behind a bucket that is not done few are.
    if (owner != worker && !Done(entry)) break;
    Chain& chain = aside_[bucket];
    while (taken < most && chain.first != kNone) {
      const uint32_t node = chain.first;
      into[taken++] = nodes_[node].event;
      if (uint32_t* const counted = std::exchange(nodes_[node].counted, nullptr)) --*counted;
      chain.first = nodes_[node].next;
      nodes_[node].next = free_node_;
      free_node_ = node;
    }
    buckets_[bucket] = EntryOf(worker, sequence + taken);
    if (owner != worker) flows_taken++;
    if (chain.first == kNone) {
      chain.last = kNone;
      RemoveBucket(owner, bucket, kNone);
    } else {
      buckets_[bucket] |= kSetAside;
      if (owner != worker) {
        RemoveBucket(owner, bucket, kNone);
        AppendBucket(worker, bucket);
      }
    }
  }
  waiting_events_ -= taken;
  return taken;
}

bool FlowOwners::MayTake(uint32_t worker) const {
  if (Waits(0) || (worker != 0 && Waits(worker))) return true;
  for (uint64_t owners = waiting_mask_; owners != 0; owners &= owners - 1) {
    // As TakeWaiting goes: from the front.
    if (Done(buckets_[waiting_[static_cast<uint32_t>(std::countr_zero(owners)) + 1].first])) return true;
  }
  return false;
}

void FlowOwners::Abandon(uint32_t owner) {
  while (waiting_[owner].first != kNone) {
    const uint32_t bucket = waiting_[owner].first;
    RemoveBucket(owner, bucket, kNone);
    buckets_[bucket] = kSetAside;  // owned by nobody, who has completed number 0
    AppendBucket(0, bucket);
  }
}

}  // namespace spillway::dispatch

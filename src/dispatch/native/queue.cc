// SPDX-License-Identifier: Apache-2.0
#include "dispatch/native/queue.h"

#include <algorithm>
#include <bit>

namespace spillway::dispatch {
namespace {

constexpr size_t kFewestLooks = 32;  // at events of a ring, by a worker whose share is small
// Of the domain's credits, the windows of a shard may hold one in so many by events that are set aside: else
// one producer, by the events of one slow flow, would take them from all who put anything into the domain.
constexpr uint32_t kWindowsAside = 4;

}  // namespace

NativeShard::NativeShard(Kind kind, const CompletedTable& completed, uint32_t credits,
                         uint16_t starvation_guard, uint32_t flow_seed)
    : kind_(kind), credits_(credits), capacity_(std::bit_ceil(credits)), starvation_guard_(starvation_guard) {
  if (kind == Kind::kAtomic) owners_ = std::make_unique<FlowOwners>(completed, credits, flow_seed);
  if (kind == Kind::kOrdered) reorder_ = std::make_unique<Reorder>(capacity_);
}

void NativeShard::Open(uint8_t priority) {
  TryLockHold hold(&open_lock_);
  if (rings_[priority].load(std::memory_order_relaxed)) return;
  ring_owners_[priority] = std::make_unique<SlotRing>(capacity_);
  rings_[priority].store(ring_owners_[priority].get(), std::memory_order_release);
  used_.fetch_or(static_cast<uint8_t>(1u << priority), std::memory_order_release);
}

bool NativeShard::Ready() const {
  // Who may look into a window is who has the lock, so with windows every look is a try.
  return AnyRingReady() || aside_.load(std::memory_order_relaxed) != 0 || HasWindows();
}

// ReadyFor and ReadyForOthers: of a worker that looks and then sleeps, and one that ends its events and then
// looks who sleeps, one sees the other. Their fences order what they see of a third one, that set aside.
bool NativeShard::ReadyFor(uint32_t worker) {
  if (AnyRingReady() || HasWindows()) return true;
  if (!owners_) return aside_.load(std::memory_order_relaxed) != 0;
  // Not aside_ alone: who holds the lock may be about to set something aside.
  if (!lock_.Try()) return true;
  std::atomic_thread_fence(std::memory_order_seq_cst);
  const bool ready = owners_->MayTake(worker);
  lock_.Unlock();
  return ready;
}

bool NativeShard::ReadyForOthers() {
  if (AnyRingReady()) return true;
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (aside_.load(std::memory_order_relaxed) == 0) return false;
  if (!owners_ || !lock_.Try()) return true;
  const bool ready = owners_->MayTake(0);
  lock_.Unlock();
  return ready;
}

int NativeShard::Take(Taker& taker, Pull& pull) {
  const bool windows = window_count_.load(std::memory_order_acquire) != 0;
  const bool shared = kind_ != Kind::kDirected || windows;
  if (shared && !lock_.Try()) return -1;
  const unsigned used = used_.load(std::memory_order_acquire);
  size_t taken = 0, most = pull.most, share = most;
  if (pull.workers > 1) {
    const uint64_t enough = uint64_t{most} * pull.workers;
    const uint64_t waiting = WaitingAbout(used, enough);
    share = std::clamp<uint64_t>((waiting + pull.workers - 1) / pull.workers, 1, most);
  }
  if (aside_.load(std::memory_order_relaxed) != 0) {
    taken = TakeReturned(taker, pull.into, std::min(most, share), pull.ticket);
    share -= taken;
    // Returned events have old tickets; those from the ring get new ones, which are not consecutive to them.
    if (taken > 0 && kind_ == Kind::kOrdered) share = 0;
    if (owners_) taken += TakeSetAside(taker, pull.into + taken, most - taken, share);
  }
  if (kind_ == Kind::kOrdered && taken == 0) pull.ticket = next_ticket_;
  most = std::min(most - taken, share);
  size_t from_rings = 0;
  const unsigned sources = used | (windows ? kWindows : 0);
  if (sources == 1)
    from_rings = TakeRing(0, taker, pull.into + taken, most, pull.wake_owners);
  else if (sources == kWindows && lone_window_)  // under the lock, as windows are looked at
    from_rings = TakeWindow(*lone_window_, 0, taker, pull.into + taken, most, pull.wake_owners);
  else if (windows && used <= 1 && window_priorities_ <= 1)
    from_rings = TakePriority(0, sources, taker, pull.into + taken, most, pull.wake_owners);
  else if (most > 0)
    from_rings = TakeByPriority(sources, taker, pull.into + taken, most, pull.wake_owners);
  taken += from_rings;
  if (kind_ == Kind::kOrdered) next_ticket_ += from_rings;
  if (owners_) aside_.store(static_cast<uint32_t>(owners_->waiting()), std::memory_order_relaxed);
  if (shared) lock_.Unlock();
  return static_cast<int>(taken);
}

// What waits, or `enough` where there is more. So that under load the producers' index, which they write all
// the time, is left alone: one slot shows that there is enough.
uint64_t NativeShard::WaitingAbout(unsigned used, uint64_t enough) const {
  if (used != 0 && rings_[std::countr_zero(used)].load(std::memory_order_relaxed)->HasWaiting(enough))
    return enough;
  uint64_t waiting = Waiting();
  for (const auto& window : windows_) {
    if (waiting >= enough) break;
    waiting += window->Waiting(enough - waiting);
  }
  return waiting;
}

size_t NativeShard::TakeByPriority(unsigned sources, Taker& taker, Event* into, size_t most,
                                   uint64_t& wake_owners) {
  const bool windows = sources & kWindows;
  const unsigned levels = (sources | (windows ? window_priorities_ : 0)) & ~kWindows;
  size_t taken = 0;
  if (++takes_ % starvation_guard_ == 0) {
    for (int priority = kPriorities - 1; priority >= 0; priority--) {
      if (!(levels & 1u << priority)) continue;
      const size_t part = std::min(most - taken, std::max<size_t>(1, most / kPriorities));
      taken += TakePriority(static_cast<uint8_t>(priority), sources, taker, into + taken, part, wake_owners);
    }
  }
  // Behind an event of a window's ring may be one of any priority: from the top again, while there is some.
  for (size_t before = ~size_t{0}; taken < most && taken != before;) {
    before = taken;
    for (unsigned left = levels; left != 0 && taken < most; left &= left - 1) {
      const auto priority = static_cast<uint8_t>(std::countr_zero(left));
      taken += TakePriority(priority, sources, taker, into + taken, most - taken, wake_owners);
    }
    if (!windows) break;
  }
  return taken;
}

// From the ring and the windows, in turns: each goes first after the one before it had something.
size_t NativeShard::TakePriority(uint8_t priority, unsigned sources, Taker& taker, Event* into, size_t most,
                                 uint64_t& wake_owners) {
  const bool ring = sources & 1u << priority;
  if (!(sources & kWindows)) return ring ? TakeRing(priority, taker, into, most, wake_owners) : 0;
  size_t taken = 0, next = turn_;
  for (size_t left = windows_.size() + 1; left > 0 && taken < most; left--) {
    const size_t source = next, before = taken;
    next = source == windows_.size() ? 0 : source + 1;
    if (source < windows_.size())
      taken += TakeWindow(*windows_[source], priority, taker, into + taken, most - taken, wake_owners);
    else if (ring)
      taken += TakeRing(priority, taker, into + taken, most - taken, wake_owners);
    if (before == 0 && taken > 0) turn_ = next;
  }
  return taken;
}

size_t NativeShard::TakeReturned(Taker& taker, Event* into, size_t most, uint64_t& ticket) {
  size_t taken = 0;
  while (taken < most && !returned_.empty()) {
    const Returned& next = returned_.front();
    if (kind_ == Kind::kOrdered) {
      if (taken == 0) ticket = next.ticket;
      if (next.ticket != ticket + taken) break;
    }
    into[taken++] = next.event;
    returned_.pop_front();
  }
  taker.sequence += taken;
  if (!owners_) aside_.store(static_cast<uint32_t>(returned_.size()), std::memory_order_relaxed);
  return taken;
}

// What waits for nobody or for the taker comes first, as it is older than what the rings hold; then flows
// that others are done with. Only the taker may take what waits for it, so that is no part of its share.
size_t NativeShard::TakeSetAside(Taker& taker, Event* into, size_t most, size_t& share) {
  size_t taken = 0;
  auto take = [&](uint32_t owner, size_t limit) -> size_t {
    if (limit == 0 || !owners_->Waits(owner)) return 0;
    const size_t got = owners_->TakeWaiting(owner, taker.worker, taker.sequence + taken, into + taken, limit,
                                            taker.flows_taken);
    taken += got;
    return got;
  };
  share -= take(0, std::min(most, share));
  take(taker.worker, most - taken);
  for (uint64_t others = owners_->WaitingMask() & ~(1ULL << (taker.worker - 1)); others != 0;
       others &= others - 1)
    share -= take(static_cast<uint32_t>(std::countr_zero(others)) + 1, std::min(most - taken, share));
  taker.sequence += taken;
  return taken;
}

size_t NativeShard::TakeRing(uint8_t priority, Taker& taker, Event* into, size_t most,
                             uint64_t& wake_owners) {
  SlotRing::Reader reader(*rings_[priority].load(std::memory_order_relaxed));
  size_t taken = 0;
  if (!owners_) {
    taken = reader.Take(into, most);
    taker.sequence += taken;
    return taken;
  }
  // A few flows of somebody else's must not keep the lock for long.
  size_t looks = std::max<size_t>(4 * most, kFewestLooks);
  while (taken < most && looks > 0) {
    const size_t part = reader.Take(into + taken, std::min(looks, most - taken));
    if (part == 0) break;
    looks -= part;
    // Where a burst was full, more is likely to be there.
    if (taken + part == most) reader.Expect(most);
    taken += ClaimAll(taker, into + taken, part, wake_owners);
  }
  return taken;
}

// Of events just read, in order, those that may be the taker's now move to the front; the others are set
// aside.
size_t NativeShard::ClaimAll(Taker& taker, Event* events, size_t count, uint64_t& wake_owners,
                             uint32_t* counted) {
  uint64_t sequence = taker.sequence;
  size_t claimed = 0;
  for (size_t i = 0; i < count; i++) {
    if (owners_->Claim(taker.worker, sequence + 1, owners_->BucketOf(events[i].flow))) [[likely]] {
      sequence++;
      if (claimed != i) events[claimed] = events[i];
      claimed++;
    } else {
      SetAside(taker, events[i], wake_owners, counted);
    }
  }
  taker.sequence = sequence;
  return claimed;
}

void NativeShard::SetAside(Taker& taker, const Event& event, uint64_t& wake_owners, uint32_t* counted) {
  const uint32_t owner = owners_->SetAside(event, counted);
  if (owner != 0) wake_owners |= 1ULL << (owner - 1);
  taker.deferred++;
}

size_t NativeShard::TakeWindow(Window& window, uint8_t priority, Taker& taker, Event* into, size_t most,
                               uint64_t& wake_owners) {
  if (!window.Ready(priority)) return 0;
  if (owners_) most = std::min<size_t>(most, window_aside_ - std::min(window_aside_, window.set_aside));
  if (most == 0) return 0;
  bool refilled = false;
  const uint32_t credits = taker.purse->Take(static_cast<uint32_t>(most), refilled);
  const size_t got = window.Take(priority, into, credits);
  taker.purse->Put(credits - static_cast<uint32_t>(got));
  if (owners_) return ClaimAll(taker, into, got, wake_owners, &window.set_aside);
  taker.sequence += got;
  return got;
}

void NativeShard::AttachWindow(std::shared_ptr<Window> window) {
  TryLockHold hold(&lock_);
  windows_.push_back(std::move(window));
  OnWindowsChanged();
}

void NativeShard::DetachWindow(const Window& window) {
  TryLockHold hold(&lock_);
  if (owners_) owners_->ForgetCount(&window.set_aside);
  std::erase_if(windows_, [&](const auto& attached) { return attached.get() == &window; });
  turn_ = 0;
  OnWindowsChanged();
}

void NativeShard::OnWindowsChanged() {
  window_priorities_ = 0;
  const auto windows = std::max<uint32_t>(1, static_cast<uint32_t>(windows_.size()));
  window_aside_ = std::max<uint32_t>(1, credits_ / kWindowsAside / windows);
  for (const auto& window : windows_) window_priorities_ |= (1u << window->header().priorities) - 1;
  lone_window_ = windows_.size() == 1 && window_priorities_ == 1 ? windows_.front().get() : nullptr;
  window_count_.store(static_cast<uint32_t>(windows_.size()), std::memory_order_release);
}

void NativeShard::HandBack(uint32_t worker, const std::vector<Event>& events,
                           const std::vector<uint64_t>& tickets) {
  TryLockHold hold(kind_ == Kind::kDirected ? nullptr : &lock_);
  if (owners_) {
    for (size_t i = events.size(); i-- > 0;) owners_->GiveBack(events[i]);
    owners_->Abandon(worker);
    aside_.store(static_cast<uint32_t>(owners_->waiting()), std::memory_order_relaxed);
    return;
  }
  for (size_t i = 0; i < events.size(); i++) returned_.push_back({events[i], tickets[i]});
  aside_.store(static_cast<uint32_t>(returned_.size()), std::memory_order_relaxed);
}

uint64_t NativeShard::Waiting() const {
  uint64_t waiting = aside_.load(std::memory_order_relaxed);
  for (unsigned used = used_.load(std::memory_order_acquire); used != 0; used &= used - 1)
    waiting += rings_[std::countr_zero(used)].load(std::memory_order_relaxed)->Waiting();
  return waiting;
}

uint64_t NativeShard::Enqueued() const {
  uint64_t enqueued = 0;
  for (unsigned used = used_.load(std::memory_order_acquire); used != 0; used &= used - 1)
    enqueued += rings_[std::countr_zero(used)].load(std::memory_order_relaxed)->Claimed();
  return enqueued;
}

const void* NativeShard::NextSlot() const {
  const unsigned used = used_.load(std::memory_order_acquire);
  if (used == 0) return &used_;
  return rings_[std::countr_zero(used)].load(std::memory_order_relaxed)->NextSlot();
}

NativeQueue::NativeQueue(uint16_t number, const QueueOptions& options, const CompletedTable& completed,
                         uint32_t credits, uint16_t starvation_guard, uint32_t flow_seed)
    : number_(number),
      options_(options),
      shard_bits_(std::countr_zero(unsigned{options.shards})),
      flow_seed_(flow_seed) {
  for (uint16_t i = 0; i < options.shards; i++)
    shards_.push_back(
        std::make_unique<NativeShard>(options.kind, completed, credits, starvation_guard, flow_seed));
}

void NativeQueue::Spread(const Event* events, size_t count, uint8_t priority, uint32_t port) {
  if (options_.kind == Kind::kUnordered) {
    shards_[port & (shards_.size() - 1)]->Put(events, count, priority);
    return;
  }
  // Sorted by shard, in order within each: one claim of places for each shard met, and all claims before the
  // first event.
  constexpr size_t kPart = 64;
  for (; count > 0;) {
    const size_t part = std::min(count, kPart);
    uint8_t shard_of[kPart], found[kMaxShards] = {};
    uint64_t met = 0;
    for (size_t i = 0; i < part; i++) {
      shard_of[i] = static_cast<uint8_t>(FlowHash(events[i].flow, flow_seed_) >> (32 - shard_bits_));
      found[shard_of[i]]++;
      met |= 1ULL << shard_of[i];
    }
    SlotRing* ring[kMaxShards];
    uint64_t place[kMaxShards];
    for (uint64_t left = met; left != 0; left &= left - 1) {
      const auto shard = static_cast<size_t>(std::countr_zero(left));
      ring[shard] = &shards_[shard]->RingFor(priority);
      place[shard] = ring[shard]->Claim(found[shard]);
      ring[shard]->ExpectFill(place[shard]);
    }
    for (; met != 0; met &= met - 1) {
      const auto shard = static_cast<uint8_t>(std::countr_zero(met));
      Event sorted[kPart];
      size_t next = 0;
      for (size_t i = 0; i < part; i++) {
        sorted[next] = events[i];
        next += shard_of[i] == shard;
      }
      ring[shard]->Fill(place[shard], sorted, next, Op::kForward);
    }
    events += part;
    count -= part;
  }
}

uint64_t NativeQueue::Waiting() const {
  uint64_t waiting = 0;
  for (const auto& shard : shards_) waiting += shard->Waiting();
  return waiting;
}

uint64_t NativeQueue::Enqueued() const {
  uint64_t enqueued = 0;
  for (const auto& shard : shards_) enqueued += shard->Enqueued();
  return enqueued;
}

void NativeQueue::LookAtOccupancy() {
  if (!occupancy_lock_.Try()) return;
  const uint64_t waiting = Waiting();
  if (above_ ? waiting <= options_.low : waiting >= options_.high) {
    above_ = !above_;
    options_.on_occupancy({number_, waiting, above_});
  }
  occupancy_lock_.Unlock();
}

}  // namespace spillway::dispatch

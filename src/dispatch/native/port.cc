// SPDX-License-Identifier: Apache-2.0
#include "dispatch/native/port.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <bit>

#include "base/relax.h"
#include "dispatch/native/light_sleep.h"

namespace spillway::dispatch {
namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

// How long a sleeper looks before it goes to sleep: about what a futex round trip costs.
constexpr auto kLookBeforeSleep = 20us;

}  // namespace

NativePort::NativePort(NativeDomain& domain, const PortOptions& options, uint32_t number, uint32_t worker,
                       uint64_t sequence, std::vector<NativeQueue*> queues)
    : domain_(domain),
      number_(number),
      queues_(std::move(queues)),
      turns_(queues_.size()),
      wait_(options.wait),
      implicit_release_(options.implicit_release),
      guarded_(domain.options().deadline.count() > 0),
      purse_(domain.credits(), PurseQuantum(domain.options())) {
  taker_.worker = worker;
  taker_.sequence = sequence;
  taker_.purse = &purse_;
  if (options.event_fd) {
    event_fd_ = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    domain_.sleepers().SetEventFd(worker, event_fd_);
  }
}

NativePort::~NativePort() {
  {
    TryLockHold hold(Guard());
    if (!lost_.load(std::memory_order_relaxed)) {
      ReleaseNow(held_);
      if (taker_.worker != 0) {
        for (NativeQueue* queue : queues_) {
          for (size_t i = 0; i < queue->shards(); i++) queue->shard(i).HandBack(taker_.worker, {}, {});
        }
      }
    }
  }
  purse_.Empty();
  if (taker_.worker != 0) {
    domain_.sleepers().Withdraw(taker_.worker);
    domain_.sleepers().SetEventFd(taker_.worker, -1);
  }
  domain_.Remove(*this);
  if (event_fd_ >= 0) close(event_fd_);
}

size_t NativePort::Enqueue(std::span<const Event> events) {
  if (!guarded_) return EnqueueNow(events.data(), events.size());
  TryLockHold hold(&guard_);
  if (!lost_.load(std::memory_order_relaxed)) return EnqueueNow(events.data(), events.size());
  Count(counters_.refused_lost, events.size());
  return 0;
}

size_t NativePort::EnqueueNow(const Event* events, size_t count) {
  const size_t held_before = held_;
  size_t done = 0;
  while (done < count) {
    const Event& first = events[done];
    const uint32_t key = KeyOf(first);
    size_t end = done + 1;
    while (end < count && KeyOf(events[end]) == key) end++;
    const size_t run = end - done;
    size_t taken = 0;
    NativeQueue* const queue = domain_.queue(first.queue);
    if (first.op == Op::kRelease) {
      taken = std::min(run, held_);
      Finish(nullptr, taken, Op::kRelease);
    } else if (queue == nullptr || first.priority >= kPriorities) {
      taken = 0;
    } else if (first.op == Op::kNew) {
      taken = EnqueueNew(*queue, events + done, run, first.priority);
      if (taken < run) {
        done += taken;
        break;  // counted as want of credit there
      }
    } else if (first.op == Op::kForward) {
      taken = std::min(run, held_);
      Finish(events + done, taken, Op::kForward);
    }
    done += taken;
    if (taken < run) {
      Count(counters_.refused_bad, run - taken);
      break;
    }
  }
  if (held_ != held_before) {
    PublishCompleted();
    WakeForRest();
  }
  return done;
}

size_t NativePort::EnqueueNew(NativeQueue& queue, const Event* events, size_t count, uint8_t priority) {
  bool refilled = false;
  const auto granted = purse_.Take(static_cast<uint32_t>(count), refilled);
  if (refilled) [[unlikely]]
    domain_.LookAtOccupancy();
  if (granted > 0) {
    queue.Put(events, granted, priority, number_);
    domain_.WakeFor(queue);
    Count(counters_.enqueued, granted);
  }
  if (granted < count) Count(counters_.refused_credit, count - granted);
  return granted;
}

// Events of any queues and priorities, whose credits are theirs already.
void NativePort::Send(const Event* events, size_t count) {
  while (count > 0) {
    const uint32_t key = KeyOf(*events);
    size_t run = 1;
    while (run < count && KeyOf(events[run]) == key) run++;
    SendRun(events, run);
    events += run;
    count -= run;
  }
}

// Likewise, of one queue and priority.
void NativePort::SendRun(const Event* events, size_t count) {
  NativeQueue& queue = *domain_.queue(events->queue);
  queue.Put(events, count, events->priority, number_);
  domain_.WakeFor(queue);
}

// `events` are of one queue and priority.
void NativePort::Finish(const Event* events, size_t count, Op op) {
  if (guarded_) copies_.erase(copies_.begin(), copies_.begin() + static_cast<ptrdiff_t>(count));
  Count(op == Op::kRelease ? counters_.released : counters_.forwarded, count);
  held_ -= count;
  uint32_t free = 0;
  while (count > 0) {
    Run& run = runs_.Front();
    const size_t part = std::min(count, run.count);
    if (run.ordered) {
      free += run.ordered->reorder().Finish(run.ticket, events, part, op,
                                            [this](const Event* out, size_t n) { Send(out, n); });
      run.ticket += part;
    } else if (op == Op::kRelease) {
      free += static_cast<uint32_t>(part);
    } else {
      SendRun(events, part);
    }
    run.count -= part;
    if (run.count == 0) runs_.PopFront();
    if (op != Op::kRelease) events += part;
    count -= part;
  }
  if (free > 0) purse_.Put(free);
}

size_t NativePort::Release(size_t count) {
  TryLockHold hold(Guard());
  if (lost_.load(std::memory_order_relaxed)) {
    Count(counters_.refused_lost, count);
    return 0;
  }
  count = std::min(count, held_);
  ReleaseNow(count);
  if (count > 0) WakeForRest();
  return count;
}

void NativePort::ReleaseNow(size_t count) {
  if (count == 0) return;
  // Most releases, without what Finish needs for the others.
  if (!guarded_ && runs_.TakeUnordered(count)) {
    Count(counters_.released, count);
    held_ -= count;
    purse_.Put(static_cast<uint32_t>(count));
  } else {
    Finish(nullptr, count, Op::kRelease);
  }
  PublishCompleted();
}

void NativePort::WakeOwners(uint64_t owners) {
  // An owner that sleeps while it holds events would not come for those set aside for it.
  for (owners &= ~(1ULL << (taker_.worker - 1)); owners != 0; owners &= owners - 1)
    domain_.sleepers().Wake(static_cast<uint32_t>(std::countr_zero(owners)) + 1);
}

// Of what is left where we have just taken, or ended, something: whoever woke us woke only us, and what
// waited for us may be anybody's now.
void NativePort::WakeForRestNow() {
  for (NativeQueue* queue : queues_) {
    const uint64_t others = queue->linked.load(std::memory_order_relaxed) & ~(1ULL << (taker_.worker - 1));
    const uint64_t asleep = domain_.sleepers().Asleep(others);
    if (asleep == 0) continue;
    for (size_t i = 0; i < queue->shards(); i++) {
      if (!queue->shard(i).ReadyForOthers()) continue;
      domain_.sleepers().WakeOne(asleep);
      break;
    }
  }
}

// A worker begins at shards of its own, so that workers do not meet, and those that look in vain leave the
// producers' cache lines alone: at the one of its rank and, where shards are more than workers, at each that
// is so many further, in turn. Now and then it begins at the next of all, the more often the more shards
// there are for each worker: none waits for a worker that is busy, or is not there.
size_t NativePort::FirstShard(const NativeQueue& queue, Turn& turn, uint64_t linked, uint32_t workers) {
  const size_t shards = queue.shards();
  if (shards == 1) return 0;
  uint32_t guard = domain_.options().starvation_guard;
  if (workers < shards) guard = std::max<uint32_t>(guard * workers >> std::countr_zero(shards), 2);
  if (++turn.looks % guard == 0) return turn.next++;
  const uint64_t before = linked & ((1ULL << (taker_.worker - 1)) - 1);
  const auto rank = static_cast<size_t>(std::popcount(before));
  turn.own = turn.own + workers < shards ? turn.own + workers : rank;
  return turn.own;
}

// One look at each queue, the one after last time's first.
size_t NativePort::Pass(Event* into, size_t most) {
  busy_lock_ = false;
  for (size_t q = 0; q < queues_.size(); q++) {
    NativeQueue& queue = *queues_[next_queue_];
    Turn& turn = turns_[next_queue_];
    if (++next_queue_ == queues_.size()) next_queue_ = 0;
    const uint64_t linked = queue.linked.load(std::memory_order_relaxed);
    // Counting bits is a call, where the processor is not known to have the instruction.
    const uint32_t workers = (linked & (linked - 1)) == 0 ? 1 : static_cast<uint32_t>(std::popcount(linked));
    const size_t shards = queue.shards(), first = FirstShard(queue, turn, linked, workers);
    for (size_t i = 0; i < shards; i++) {
      NativeShard& shard = queue.shard((first + i) & (shards - 1));
      if (!shard.Ready()) continue;
      Pull pull;
      pull.into = into;
      pull.most = most;
      pull.workers = queue.WorkersPerShard(workers);
      const int taken = shard.Take(taker_, pull);
      if (queue.kind() == Kind::kAtomic) {
        if (pull.wake_owners != 0) [[unlikely]]
          WakeOwners(pull.wake_owners);
        counters_.flows_taken.store(taker_.flows_taken, std::memory_order_relaxed);
        counters_.deferred.store(taker_.deferred, std::memory_order_relaxed);
      }
      if (taken <= 0) {
        busy_lock_ |= taken < 0;
        continue;
      }
      const auto count = static_cast<size_t>(taken);
      runs_.Add(queue.kind() == Kind::kOrdered ? &shard : nullptr, pull.ticket, count);
      held_ += count;
      if (guarded_) {
        if (copies_.empty()) held_since_ = Clock::now();
        for (size_t e = 0; e < count; e++) copies_.push_back({into[e], &shard, pull.ticket + e});
      }
      if (queue.watched() && counters_.pulls.load(std::memory_order_relaxed) % 8 == 0) [[unlikely]]
        queue.LookAtOccupancy();
      return count;
    }
  }
  return 0;
}

bool NativePort::AnythingReady() const {
  for (NativeQueue* queue : queues_) {
    for (size_t i = 0; i < queue->shards(); i++) {
      if (queue->shard(i).Ready()) return true;
    }
  }
  return false;
}

bool NativePort::AnythingReadyForMe() {
  for (NativeQueue* queue : queues_) {
    for (size_t i = 0; i < queue->shards(); i++) {
      if (queue->shard(i).ReadyFor(taker_.worker)) return true;
    }
  }
  return false;
}

bool NativePort::HasWindows() const {
  for (NativeQueue* queue : queues_) {
    for (size_t i = 0; i < queue->shards(); i++) {
      if (queue->shard(i).HasWindows()) return true;
    }
  }
  return false;
}

size_t NativePort::Dequeue(std::span<Event> into, std::chrono::nanoseconds patience) {
  if (taker_.worker == 0) return 0;
  Clock::time_point give_up{}, sleepy{};
  bool started = false;
  for (;;) {
    size_t got = 0;
    {
      TryLockHold hold(Guard());
      if (lost_.load(std::memory_order_relaxed)) return 0;
      const bool ended = implicit_release_ && held_ > 0;
      if (ended) ReleaseNow(held_);
      const size_t most = std::min(into.size(), kMaxHeld - held_);
      if (most > 0) got = Pass(into.data(), most);
      if (ended || got > 0) WakeForRest();
      if (got > 0) {
        Count(counters_.pulls);
        Count(counters_.dequeued, got);
        return got;
      }
      if (most == 0) return 0;
      purse_.Empty();  // an idle port keeps no credits from the others
    }
    Count(counters_.empty);
    if (patience.count() <= 0) return 0;
    const auto now = Clock::now();
    if (!started) {
      started = true;
      give_up = now + std::min<std::chrono::nanoseconds>(patience, 24h);
      sleepy = now + kLookBeforeSleep;
    }
    if (now >= give_up) return 0;
    if (wait_ == Wait::kSleep && now >= sleepy && !busy_lock_ && !HasWindows()) {
      Sleepers& sleepers = domain_.sleepers();
      sleepers.Announce(taker_.worker);
      if (!AnythingReadyForMe()) {
        Count(counters_.slept);
        sleepers.Sleep(taker_.worker, give_up - now);
      }
      sleepers.Withdraw(taker_.worker);
      sleepy = Clock::now() + kLookBeforeSleep;
    } else if (wait_ == Wait::kUmwait && HaveLightSleep()) {
      LightSleep(queues_[next_queue_]->shard(0).NextSlot(), [this] { return AnythingReady(); });
    } else {
      // A look is a load from the nearest cache; between looks the core's other thread may have it.
      for (int i = 0; i < 8 && !AnythingReady(); i++) base::Relax();
    }
  }
}

bool NativePort::Arm() {
  if (event_fd_ < 0) return false;
  uint64_t drained;
  (void)!read(event_fd_, &drained, sizeof(drained));
  if (HasWindows()) return false;
  domain_.sleepers().Announce(taker_.worker);
  if (!AnythingReadyForMe()) return true;
  domain_.sleepers().Withdraw(taker_.worker);
  return false;
}

int64_t NativePort::HandOnIfHung(Clock::time_point now) {
  // Held for a moment by a port at work; by one that died inside a call, for ever: it cannot be helped then.
  if (!guard_.Try()) return -1;
  int64_t handed_on = -1;
  if (!lost_.load(std::memory_order_relaxed) && !copies_.empty() &&
      now - held_since_ > domain_.options().deadline) {
    lost_.store(true, std::memory_order_release);
    handed_on = static_cast<int64_t>(copies_.size());
    for (NativeQueue* queue : queues_) {
      for (size_t i = 0; i < queue->shards(); i++) {
        NativeShard& shard = queue->shard(i);
        std::vector<Event> events;
        std::vector<uint64_t> tickets;
        for (const Held1& copy : copies_) {
          if (copy.shard != &shard) continue;
          events.push_back(copy.event);
          tickets.push_back(copy.ticket);
        }
        shard.HandBack(taker_.worker, events, tickets);
      }
    }
    copies_.clear();
    runs_.Clear();
    held_ = 0;
    // Flows of the hung worker without events of theirs are free from here on.
    PublishCompleted();
  }
  guard_.Unlock();
  return handed_on;
}

PortStatistics NativePort::Statistics() const {
  auto read = [](const std::atomic<uint64_t>& counter) { return counter.load(std::memory_order_relaxed); };
  PortStatistics statistics;
  statistics.enqueued = read(counters_.enqueued);
  statistics.refused_credit = read(counters_.refused_credit);
  statistics.refused_bad = read(counters_.refused_bad);
  statistics.refused_lost = read(counters_.refused_lost);
  statistics.dequeued = read(counters_.dequeued);
  statistics.released = read(counters_.released);
  statistics.forwarded = read(counters_.forwarded);
  statistics.pulls = read(counters_.pulls);
  statistics.empty = read(counters_.empty);
  statistics.flows_taken = read(counters_.flows_taken);
  statistics.deferred = read(counters_.deferred);
  statistics.slept = read(counters_.slept);
  statistics.woke_others = read(counters_.woke_others);
  return statistics;
}

}  // namespace spillway::dispatch

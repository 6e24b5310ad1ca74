// SPDX-License-Identifier: Apache-2.0
// Dispatch: spreads events over worker threads, without a scheduler core and without privileges.
//
//   Domain ─┬─ Queue (atomic, ordered, unordered, directed), any mix of them
//           └─ Port: a producer port enqueues; a worker port also dequeues from the queues it is linked to
//
//   auto domain = Domain::Open("native", {});              // or "event_sw", "event_dsw", "event_dlb2"
//   auto queue = (*domain)->AddQueue({.kind = Kind::kAtomic});
//   auto port = (*domain)->AddPort({.queues = {*queue}});  // one per thread
//   while (running) {
//     size_t n = (*port)->Dequeue(burst, 1ms);             // the burst before is released first
//     for (Event& event : std::span(burst, n)) Serve(event);
//   }
//
// Threads: they are the caller's, and nothing here pins one to a core. A Port belongs to one thread at a
// time. Everything of Domain may be called from any thread. The domain outlives its ports. Events are never
// lost; where there is no room, Enqueue says how many it took.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "dispatch/event.h"
#include "dispatch/window.h"

namespace spillway::dispatch {

enum class Kind : uint8_t {
  kAtomic,     // a flow is at one worker at a time, and in order (per priority)
  kOrdered,    // processed anywhere at once; what is forwarded leaves in the order in which it was handed out
  kUnordered,  // processed anywhere, no order
  kDirected,   // exactly one port consumes it, in order
};
[[nodiscard]] std::string_view ToString(Kind kind);  // "atomic", ...

// How Dequeue spends its patience.
enum class Wait : uint8_t {
  kPoll,    // looks all the time: lowest latency, a core of its own
  kUmwait,  // as kPoll, in the processor's light sleep where CPUID has waitpkg; else as kPoll
  kSleep,   // looks for some microseconds, then sleeps in the kernel (futex) until a producer wakes it
};

struct DomainOptions {
  // Events in the domain at once, 64 .. 1,048,576. Fewer: producers meet back-pressure sooner. More: longer
  // queues under overload, 16 bytes times priorities in use times shards for each queue, and colder caches.
  uint32_t credits = 4096;
  // Ports at once, 1 .. 256. A quarter of the credits, at most, rests unused in ports; the more ports, the
  // smaller each one's share and the more often it goes to the common pool.
  uint16_t ports = 16;
  // One pull in so many starts with the lowest priority, and of a queue with several shards at another shard
  // than the worker's own (2 .. 65535). Lower: less difference between priorities, more meetings of workers.
  uint16_t starvation_guard = 16;
  // A worker that holds events and has ended none for longer is taken for hung by Domain::HandOnHung; 0:
  // nobody is. Costs a
  // copy of each event handed out, and a lock per call that only the hunt contends for.
  std::chrono::nanoseconds deadline{0};
};

struct Occupancy {
  uint16_t queue = 0;
  uint64_t waiting = 0;  // events enqueued and not handed out yet
  bool above = false;    // has risen to `high`; false: has fallen to `low`
};

struct QueueOptions {
  std::string name;
  Kind kind = Kind::kAtomic;
  // Independent parts, by flow (unordered: by port), a power of two 1 .. 64. Workers on different shards do
  // not meet; order is per flow then, of ordered queues too. Directed queues have 1. More than workers is
  // waste.
  uint16_t shards = 1;
  // Called when the number waiting rises to `high`, and when it then falls to `low`: from the thread whose
  // Enqueue or Dequeue noticed, so it must be short and must not call this domain; never twice at once for a
  // queue. Looked at when a port goes to the credit pool and at every eighth pull: a load report's pace, not
  // an event's.
  std::function<void(const Occupancy&)> on_occupancy;
  uint64_t high = 0, low = 0;
};

struct PortOptions {
  std::string name;
  std::vector<uint16_t> queues;  // to dequeue from; empty: a producer port. At most 64 worker ports
  Wait wait = Wait::kPoll;
  // Dequeue first releases what the port still holds. Without, events are held until released or forwarded,
  // at most kMaxHeld of them.
  bool implicit_release = true;
  // Also signal Port::EventFd on a wake-up, for use in poll(2) and epoll(7).
  bool event_fd = false;
};
inline constexpr size_t kMaxHeld = 4096;

struct PortStatistics {
  uint64_t enqueued = 0;  // new events taken
  uint64_t refused_credit =
      0;                     // new events not taken for want of credits: back-pressure, normal under overload
  uint64_t refused_bad = 0;  // no such queue or priority, or more forwarded than held: a bug of the caller
  uint64_t refused_lost = 0;  // forwarded or released by a worker whose events were handed on
  uint64_t dequeued = 0, released = 0, forwarded = 0;
  uint64_t pulls = 0;        // Dequeue passes that found something
  uint64_t empty = 0;        // and those that did not
  uint64_t flows_taken = 0;  // flows taken over whole from another worker, with events waiting
  uint64_t deferred = 0;     // events set aside because their flow was at another worker
  uint64_t slept = 0, woke_others = 0;
};

struct QueueStatistics {
  std::string name;
  Kind kind = Kind::kAtomic;
  uint64_t waiting = 0;   // events enqueued and not handed out, about
  uint64_t enqueued = 0;  // since the domain was opened
};

struct DomainStatistics {
  std::vector<QueueStatistics> queues;
  uint64_t credits = 0, credits_free = 0;  // free: in the pool; the rest is with events and ports
  uint64_t workers_lost = 0, events_handed_on = 0;
  PortStatistics ports;  // of all ports, those that have left included
};

class Port {
 public:
  virtual ~Port() = default;  // leaves: releases what it holds
  Port(const Port&) = delete;
  Port& operator=(const Port&) = delete;

  // Carries the events' ops out in order and returns how many it took: fewer than given when credits are out
  // (try again later) or when one is bad (statistics say which). Never waits; forward and release need no
  // credit. Not atomic as a whole: others may see the first before the last is in.
  [[nodiscard]] virtual size_t Enqueue(std::span<const Event> events) = 0;

  // Up to into.size() events, oldest first within a flow, and no more than this worker's share of what waits;
  // 0 when nothing came in `patience`.
  [[nodiscard]] virtual size_t Dequeue(std::span<Event> into, std::chrono::nanoseconds patience = {}) = 0;

  // Ends the oldest `count` events held; returns how many there were.
  virtual size_t Release(size_t count) = 0;

  // Events dequeued and neither released nor forwarded.
  [[nodiscard]] virtual size_t Held() const = 0;

  // Whether this port's events were handed on because it missed the deadline. It dequeues nothing more; its
  // thread should drop the port and, if it lives, add a new one.
  [[nodiscard]] virtual bool Lost() const { return false; }

  // Sends what the engine has buffered, and lends it a hand: an idle producer of "event_dsw" calls it over
  // and over, or flows do not move from worker to worker. `native` buffers nothing.
  virtual void Flush() {}

  // For poll(2): readable after a wake-up; -1 without PortOptions::event_fd. Arm first; it returns false when
  // there is something to dequeue already.
  [[nodiscard]] virtual int EventFd() const { return -1; }
  [[nodiscard]] virtual bool Arm() { return false; }

  [[nodiscard]] virtual PortStatistics Statistics() const = 0;

 protected:
  Port() = default;
};

class Domain {
 public:
  // engine: "native", or a DPDK event device: "event_sw", "event_dsw", "event_dlb2".
  // Errors: kBadInput for options out of range or an unknown engine, kUnavailable for an engine that this
  // build or machine lacks, kSystem.
  [[nodiscard]] static Result<std::unique_ptr<Domain>> Open(std::string_view engine,
                                                            const DomainOptions& options);
  virtual ~Domain() = default;
  Domain(const Domain&) = delete;
  Domain& operator=(const Domain&) = delete;

  // Live at any time with `native`; event devices take queues and ports until the first event (kUnavailable
  // then). Errors: kBadInput, kConflict (a directed queue that has its port), kUnavailable, kSystem.
  [[nodiscard]] virtual Result<uint16_t> AddQueue(const QueueOptions& options) = 0;
  [[nodiscard]] virtual Result<std::unique_ptr<Port>> AddPort(const PortOptions& options) = 0;

  // A window for remote producers (window.h), whose events go to its queue; that has one shard. Workers of
  // the queue must poll: nothing wakes a sleeping one. Errors: kBadInput, kUnavailable with event devices,
  // kSystem.
  [[nodiscard]] virtual Result<std::shared_ptr<Window>> OpenWindow(const WindowOptions&) {
    return Fail(ErrorCode::kUnavailable, "windows need the engine native");
  }
  // Nothing more is taken from it. What it still holds is its producer's loss: drain it first.
  virtual void CloseWindow(const Window&) {}

  // Looks for workers past the deadline and hands their events on, in their place in their flows; returns how
  // many events. Each is handed out a second time; what the hung worker says of it later is refused, so that
  // downstream sees it once. Call it from a thread that does not hang: once a deadline or so.
  virtual size_t HandOnHung() { return 0; }

  [[nodiscard]] virtual DomainStatistics Statistics() const = 0;

 protected:
  Domain() = default;
};

}  // namespace spillway::dispatch

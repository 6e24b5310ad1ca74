// SPDX-License-Identifier: Apache-2.0
// The queue element of the dispatcher: 16 bytes that name a piece of work and where it belongs. A plain
// value.
#pragma once

#include <cstdint>
#include <type_traits>

namespace spillway::dispatch {

// What Port::Enqueue is to do with an event. Dequeue hands events out as kForward, so that a worker that only
// changes `queue` and enqueues again forwards.
enum class Op : uint8_t {
  kNew = 0,      // enters the domain and takes a credit
  kForward = 1,  // replaces the oldest event that the port holds and takes over its credit
  kRelease = 2,  // ends the oldest event that the port holds; flow, queue, priority and user are not read
};

inline constexpr int kPriorities = 8;  // 0 is served first

struct alignas(16) Event {
  uint32_t flow = 0;     // atomic: events of one flow are at one worker at a time; any 32 bits
  uint16_t queue = 0;    // where it goes, as Domain::AddQueue numbered it; dequeued: where it came from
  uint8_t priority = 0;  // 0 .. kPriorities - 1
  Op op = Op::kNew;
  uint64_t user = 0;  // the program's own: a pointer, an index, a time stamp

  bool operator==(const Event&) const = default;
};
static_assert(sizeof(Event) == 16 && std::is_trivially_copyable_v<Event>);

}  // namespace spillway::dispatch

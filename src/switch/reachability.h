// SPDX-License-Identifier: Apache-2.0
// Whether a unit can be reached: what the kernel says of its next hop, with patience. Pure: time is an
// argument.
//
//   the kernel says        packets of its flows   new flows        the ring names it
//   MAC known              are sent               yes              yes
//   MAC lost               are sent to that MAC   for kGrace yet   until that has held for kSettle
//   nothing (any more)     are sent to that MAC   yes              yes
//   link down, no route    are dropped            no               likewise
//
// A neighbour entry may be gone for a moment, by a flush or an answer that was lost, so one that was known is
// given time: and one that the kernel dropped, as its table is full or was flushed, is asked for and not
// taken for lost until nobody answers. A ring is laid anew only for what lasts: established flows survive
// that, but each takes memory.
#pragma once

#include <chrono>
#include <cstdint>

namespace spillway::switching {

enum class Hop : uint8_t {
  kNone,       // no route, or its link is down
  kUnknown,    // a link, and no MAC: the kernel asks for it, or nobody answers
  kForgotten,  // a link, and the kernel has no entry for the neighbour
  kKnown,
};

class Reachability {
 public:
  using Time = std::chrono::steady_clock::time_point;
  static constexpr std::chrono::milliseconds kGrace{1000}, kSettle{3000};

  // A unit not yet looked at is in the ring, and gets nothing.
  explicit Reachability(Time now) : changed_at_(now) {}

  void Look(Hop hop, Time now);

  bool forwards() const { return forwards_; }
  bool takes_new_flows() const { return takes_new_flows_; }
  bool in_ring() const { return in_ring_; }
  // The MAC is not known, or not any more.
  bool wants_resolving() const { return hop_ != Hop::kKnown; }

 private:
  // kForgotten: it was known, and nothing has been heard against it.
  Hop hop_ = Hop::kNone;
  bool forwards_ = false, takes_new_flows_ = false, in_ring_ = true;
  Time lost_at_{};   // the MAC, where packets are sent to it all the same
  Time changed_at_;  // takes_new_flows
};

inline void Reachability::Look(Hop hop, Time now) {
  const bool was_known = hop_ == Hop::kKnown || hop_ == Hop::kForgotten;
  if (hop == Hop::kForgotten && !was_known) hop = Hop::kUnknown;
  if (hop == Hop::kUnknown && was_known) lost_at_ = now;
  hop_ = hop;
  if (hop == Hop::kNone || hop == Hop::kKnown) forwards_ = hop == Hop::kKnown;
  const bool takes = forwards_ && (hop != Hop::kUnknown || now - lost_at_ < kGrace);
  if (takes != takes_new_flows_) changed_at_ = now;
  takes_new_flows_ = takes;
  if (now - changed_at_ >= kSettle) in_ring_ = takes;
}

}  // namespace spillway::switching

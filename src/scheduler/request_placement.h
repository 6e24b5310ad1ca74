// SPDX-License-Identifier: Apache-2.0
// Which slice of which GPU runs one request, also where no time is known: the one that will have finished it
// first, among those that hold its model, have a free cell and may be shared with its tenant. A slice of
// which nobody knows how long it takes is tried when it is idle; with requests in hand it is taken to be as
// quick as the others are on average, and where nothing is known of any, the one with the fewest in hand gets
// it. Pure; time comes in. Thread-safe.
#pragma once

#include <chrono>
#include <cstdint>
#include <limits>
#include <span>
#include <string>

#include "scheduler/job.h"

namespace spillway::scheduler {

inline constexpr uint32_t kNobody = std::numeric_limits<uint32_t>::max();

// More is expected of no request, whatever figures say: sums over all requests in hand stay far from
// what 64 bits hold, and nobody waits for one so long.
inline constexpr std::chrono::hours kMaxExpected{1};
// What a request takes by its model's and its slice's figures; 0: not known.
[[nodiscard]] std::chrono::nanoseconds TimeByFigures(double gflop, double gflop_per_s);

// A slice as the decision sees it.
struct SliceState {
  uint32_t gpu = 0;       // slices of one GPU have equal numbers
  uint32_t executor = 0;  // so have slices of one executor
  double gflop_per_s = 1;
  std::chrono::nanoseconds free_at{0};  // when what it was given so far will be done
  uint32_t cells_free = 0;              // requests that it can still take
  uint32_t in_hand = 0;                 // that it has
  uint32_t tenant = kNobody;            // whose requests it holds
  uint32_t promised_to = kNobody;       // only this tenant's requests come next
  bool alive = true;
  bool is_draining = false;  // ends what it has in hand and takes nothing more
  bool is_starting = false;  // takes nothing yet

  [[nodiscard]] bool TakesMore() const { return alive && !is_draining && !is_starting; }
};

struct RequestDemand {
  uint32_t tenant = 0;
  double gflop = 0;                  // 0: not known
  std::span<const uint32_t> slices;  // that hold the model
  uint32_t not_executor = kNobody;   // one that died with this request: only if there is no other
  // By slice of `slices`, or none: what such a request takes there, as was learnt; 0: nothing was, and
  // gflop / gflop_per_s counts, if it is known.
  std::span<const std::chrono::nanoseconds> learnt = {};
};

struct RequestPlacement {
  int32_t slice = -1;                   // -1: none now
  std::chrono::nanoseconds done_at{0};  // if placed
  // Of the slices with the model that could not take it: how many, by the first reason that held.
  uint32_t dead = 0, starting = 0, draining = 0, full = 0, other_tenant = 0, promised = 0;

  // "2 slices hold other tenants' requests, 1 slice is full"; what was in the way.
  [[nodiscard]] std::string Reason() const;
};

// The earliest completion; of equals the fewest in hand, then the first slice. `states` is indexed by the
// entries of demand.slices.
[[nodiscard]] RequestPlacement PlaceRequest(const RequestDemand& demand, std::span<const SliceState> states,
                                            Isolation isolation, std::chrono::nanoseconds now);

// For a tenant that finds no slice because others hold them all: the slice that will be free for it first, to
// be promised to it, so that tenants that never pause cannot keep it out. -1: none (it has a promise already,
// or what it waits for is no tenant).
[[nodiscard]] int32_t SliceToPromise(const RequestDemand& demand, std::span<const SliceState> states,
                                     Isolation isolation);

}  // namespace spillway::scheduler

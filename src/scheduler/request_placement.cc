// SPDX-License-Identifier: Apache-2.0
#include "scheduler/request_placement.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

namespace spillway::scheduler {
namespace {

using std::chrono::nanoseconds;

// Whether requests of others stand in the way of `tenant` at `slice`.
bool HeldByOthers(uint32_t tenant, uint32_t slice, std::span<const SliceState> states, Isolation isolation) {
  if (isolation == Isolation::kNone) return false;
  const auto other = [&](const SliceState& state) {
    return state.alive && state.tenant != kNobody && state.tenant != tenant;
  };
  if (other(states[slice])) return true;
  return isolation == Isolation::kGpu && std::any_of(states.begin(), states.end(), [&](const SliceState& s) {
           return s.gpu == states[slice].gpu && other(s);
         });
}

// A promise covers what one tenant needs to itself: the slice, or its GPU.
bool PromisedToOthers(uint32_t tenant, uint32_t slice, std::span<const SliceState> states,
                      Isolation isolation) {
  const auto other = [&](const SliceState& state) {
    return state.alive && state.promised_to != kNobody && state.promised_to != tenant;
  };
  if (other(states[slice])) return true;
  return isolation == Isolation::kGpu && std::any_of(states.begin(), states.end(), [&](const SliceState& s) {
           return s.gpu == states[slice].gpu && other(s);
         });
}

// What the request takes at the i-th of its slices; 0: not known.
nanoseconds Known(const RequestDemand& demand, std::span<const SliceState> states, size_t i) {
  if (i < demand.learnt.size() && demand.learnt[i] > nanoseconds(0))
    return std::min<nanoseconds>(demand.learnt[i], kMaxExpected);
  return TimeByFigures(demand.gflop, states[demand.slices[i]].gflop_per_s);
}

// Where it is known: the mean; 0 where it is known of no living slice.
nanoseconds Typical(const RequestDemand& demand, std::span<const SliceState> states) {
  nanoseconds all{0};
  int64_t count = 0;
  for (size_t i = 0; i < demand.slices.size(); i++) {
    const nanoseconds known = Known(demand, states, i);
    if (!states[demand.slices[i]].alive || known <= nanoseconds(0)) continue;
    all += known;
    count++;
  }
  return count == 0 ? all : all / count;
}

}  // namespace

nanoseconds TimeByFigures(double gflop, double gflop_per_s) {
  constexpr auto kMost = static_cast<double>(nanoseconds(kMaxExpected).count());
  return nanoseconds(std::llround(std::min(gflop / gflop_per_s * 1e9, kMost)));
}

std::string RequestPlacement::Reason() const {
  std::string text;
  const auto add = [&](uint32_t count, const char* one, const char* many) {
    if (count == 0) return;
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", count, count == 1 ? one : many);
  };
  add(other_tenant, "slice holds another tenant's requests", "slices hold other tenants' requests");
  add(promised, "slice is promised to another tenant", "slices are promised to other tenants");
  add(full, "slice is full", "slices are full");
  add(starting, "slice is starting", "slices are starting");
  add(draining, "slice takes nothing more", "slices take nothing more");
  return text.empty() ? "no living slice has the model" : text;
}

RequestPlacement PlaceRequest(const RequestDemand& demand, std::span<const SliceState> states,
                              Isolation isolation, nanoseconds now) {
  RequestPlacement best;
  bool best_is_second_choice = false;
  std::optional<nanoseconds> typical;
  for (size_t i = 0; i < demand.slices.size(); i++) {
    const uint32_t slice = demand.slices[i];
    const SliceState& state = states[slice];
    if (!state.alive) {
      best.dead++;
      continue;
    }
    if (state.is_starting) {
      best.starting++;
      continue;
    }
    if (state.is_draining) {
      best.draining++;
      continue;
    }
    if (HeldByOthers(demand.tenant, slice, states, isolation)) {
      best.other_tenant++;
      continue;
    }
    if (PromisedToOthers(demand.tenant, slice, states, isolation)) {
      best.promised++;
      continue;
    }
    if (state.cells_free == 0) {
      best.full++;
      continue;
    }
    nanoseconds expected = Known(demand, states, i);
    if (expected <= nanoseconds(0) && state.in_hand > 0) {
      if (!typical) typical = Typical(demand, states);
      expected = *typical * state.in_hand;
    }
    const nanoseconds done = std::max(now, state.free_at) + expected;
    const bool second_choice = state.executor == demand.not_executor;
    const auto earlier = [&] {
      if (done != best.done_at) return done < best.done_at;
      return state.in_hand < states[static_cast<size_t>(best.slice)].in_hand;
    };
    if (best.slice < 0 || (best_is_second_choice && !second_choice) ||
        (best_is_second_choice == second_choice && earlier())) {
      best.slice = static_cast<int32_t>(slice);
      best.done_at = done;
      best_is_second_choice = second_choice;
    }
  }
  return best;
}

int32_t SliceToPromise(const RequestDemand& demand, std::span<const SliceState> states, Isolation isolation) {
  for (const SliceState& state : states)
    if (state.alive && state.promised_to == demand.tenant) return -1;
  int32_t best = -1;
  nanoseconds best_free{0};
  for (const uint32_t slice : demand.slices) {
    if (!states[slice].TakesMore()) continue;
    if (!HeldByOthers(demand.tenant, slice, states, isolation)) continue;
    if (PromisedToOthers(demand.tenant, slice, states, isolation)) continue;
    nanoseconds free = states[slice].free_at;
    if (isolation == Isolation::kGpu)
      for (const SliceState& state : states)
        if (state.alive && state.gpu == states[slice].gpu) free = std::max(free, state.free_at);
    if (best < 0 || free < best_free) {
      best = static_cast<int32_t>(slice);
      best_free = free;
    }
  }
  return best;
}

}  // namespace spillway::scheduler

// SPDX-License-Identifier: Apache-2.0
// Which slice gets a request, against a reference that lists all that may have it and sorts them. Random
// states, some of them with figures as an executor that lies would give.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <tuple>
#include <vector>

#include "scheduler/request_placement.h"

namespace spillway::scheduler {
namespace {

using namespace std::chrono_literals;
using std::chrono::nanoseconds;

constexpr nanoseconds kNow = 2s, kLongest = 1h;

struct Case {
  std::vector<SliceState> states;
  std::vector<uint32_t> slices;
  std::vector<nanoseconds> learnt;
  RequestDemand demand;
  Isolation isolation = Isolation::kNone;
};

class Generator {
 public:
  explicit Generator(uint64_t seed) : random_(seed) {}

  Case Next() {
    Case c;
    const auto count = 1 + Below(6);
    for (uint32_t i = 0; i < count; i++) {
      SliceState& state = c.states.emplace_back();
      state.gpu = Below(3);
      state.executor = Below(3);
      state.gflop_per_s = OneOf({1e-6, 0.5, 1.0, 10.0, 1e9});
      state.free_at = nanoseconds(1s) * Below(5);
      state.cells_free = Below(3);
      state.in_hand = Below(4);
      state.tenant = Below(2) == 0 ? kNobody : Below(2);
      state.promised_to = Below(5) != 0 ? kNobody : Below(2);
      state.alive = Below(8) != 0;
      if (Below(5) == 0) continue;
      c.slices.push_back(i);
      c.learnt.push_back(OneOf<nanoseconds>({0ns, 1ns, 20ms, 200ms, nanoseconds(int64_t{1} << 62)}));
    }
    c.demand.tenant = Below(2);
    c.demand.gflop = OneOf({0.0, 1e-3, 1.0, 1e18});
    c.demand.not_executor = Below(2) == 0 ? kNobody : Below(3);
    c.demand.slices = c.slices;
    if (Below(4) != 0) c.demand.learnt = c.learnt;
    c.isolation = OneOf({Isolation::kNone, Isolation::kFraction, Isolation::kGpu});
    return c;
  }

 private:
  uint32_t Below(uint32_t end) { return static_cast<uint32_t>(random_() % end); }
  template <class T>
  T OneOf(std::initializer_list<T> values) {
    return *(values.begin() + Below(static_cast<uint32_t>(values.size())));
  }
  std::mt19937_64 random_;
};

bool MayRun(const Case& c, const SliceState& slice) {
  const auto stands_in_the_way = [&](const SliceState& other) {
    const bool shares = &other == &slice || (c.isolation == Isolation::kGpu && other.gpu == slice.gpu);
    const auto anothers = [&](uint32_t tenant) { return tenant != kNobody && tenant != c.demand.tenant; };
    return other.alive && shares &&
           ((c.isolation != Isolation::kNone && anothers(other.tenant)) || anothers(other.promised_to));
  };
  return slice.alive && slice.cells_free > 0 &&
         std::none_of(c.states.begin(), c.states.end(), stands_in_the_way);
}

// In ns, of slices[i]; 0: nobody knows.
long double Known(const Case& c, size_t i) {
  const bool is_learnt = !c.demand.learnt.empty() && c.learnt[i] > 0ns;
  const long double ns = is_learnt ? static_cast<long double>(c.learnt[i].count())
                                   : c.demand.gflop / c.states[c.slices[i]].gflop_per_s * 1e9;
  return std::round(std::min(ns, static_cast<long double>(kLongest.count())));
}

// The slice and when it is done; -1: none.
std::pair<int32_t, nanoseconds> Reference(const Case& c) {
  long double known = 0;
  int64_t known_of = 0;
  for (size_t i = 0; i < c.slices.size(); i++)
    if (c.states[c.slices[i]].alive && Known(c, i) > 0) known += Known(c, i), known_of++;
  std::vector<std::tuple<bool, int64_t, uint32_t, size_t>> may;
  for (size_t i = 0; i < c.slices.size(); i++) {
    const SliceState& slice = c.states[c.slices[i]];
    if (!MayRun(c, slice)) continue;
    long double takes = Known(c, i);
    if (takes == 0 && known_of > 0) takes = std::floor(known / known_of) * slice.in_hand;
    may.emplace_back(slice.executor == c.demand.not_executor,
                     std::max(kNow, slice.free_at).count() + static_cast<int64_t>(takes), slice.in_hand, i);
  }
  if (may.empty()) return {-1, 0ns};
  const auto& best = *std::min_element(may.begin(), may.end());
  return {static_cast<int32_t>(c.slices[std::get<3>(best)]), nanoseconds(std::get<1>(best))};
}

TEST(RequestPlacementProperty, IsTheFirstOfAllThatMayRunItSortedByWhenTheyAreDone) {
  Generator generator(1);
  int placed = 0;
  for (int i = 0; i < 200'000; i++) {
    const Case c = generator.Next();
    const RequestPlacement placement = PlaceRequest(c.demand, c.states, c.isolation, kNow);
    const auto [slice, done_at] = Reference(c);
    ASSERT_EQ(placement.slice, slice) << "case " << i;
    if (slice < 0) {
      ASSERT_EQ(placement.dead + placement.full + placement.other_tenant + placement.promised,
                c.slices.size());
      continue;
    }
    ASSERT_EQ(placement.done_at, done_at) << "case " << i;
    placed++;
  }
  EXPECT_GT(placed, 50'000) << "cases in which nothing can be placed say little";
}

}  // namespace
}  // namespace spillway::scheduler

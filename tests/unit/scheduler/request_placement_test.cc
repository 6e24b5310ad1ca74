// SPDX-License-Identifier: Apache-2.0
#include "scheduler/request_placement.h"

#include <gtest/gtest.h>

#include <vector>

namespace spillway::scheduler {
namespace {

using namespace std::chrono_literals;

constexpr uint32_t kAlice = 0, kBob = 1;

struct Bed {
  std::vector<SliceState> slices;
  std::vector<uint32_t> with_model;

  SliceState& Add(uint32_t gpu, double gflop_per_s, uint32_t executor = 0) {
    SliceState state;
    state.gpu = gpu;
    state.executor = executor;
    state.gflop_per_s = gflop_per_s;
    state.cells_free = 2;
    with_model.push_back(static_cast<uint32_t>(slices.size()));
    slices.push_back(state);
    return slices.back();
  }
  RequestPlacement Place(uint32_t tenant, double gflop, Isolation isolation = Isolation::kFraction,
                         uint32_t not_executor = kNobody) const {
    return PlaceRequest({tenant, gflop, with_model, not_executor}, slices, isolation, 1000ns);
  }
};

TEST(RequestPlacement, TheFasterSliceWinsUntilItsQueueIsLonger) {
  Bed bed;
  bed.slices.reserve(2);
  bed.Add(0, 1);
  SliceState& fast = bed.Add(1, 10);
  EXPECT_EQ(bed.Place(kAlice, 1).slice, 1);
  EXPECT_EQ(bed.Place(kAlice, 1).done_at, 1000ns + 100ms);
  fast.free_at = 2s;
  EXPECT_EQ(bed.Place(kAlice, 1).slice, 0);  // 1 s against 2.1 s
}

TEST(RequestPlacement, OfEqualsTheFirst) {
  Bed bed;
  bed.Add(0, 1);
  bed.Add(1, 1);
  EXPECT_EQ(bed.Place(kAlice, 1).slice, 0);
}

TEST(RequestPlacement, WhatWasLearntCountsWhateverTheExecutorsWordIs) {
  Bed bed;
  bed.Add(0, 1000);
  bed.Add(1, 1);
  const std::vector<std::chrono::nanoseconds> learnt = {200ms, 20ms};
  RequestDemand demand{kAlice, 1, bed.with_model};
  demand.learnt = learnt;
  const auto placement = PlaceRequest(demand, bed.slices, Isolation::kFraction, 1000ns);
  EXPECT_EQ(placement.slice, 1);
  EXPECT_EQ(placement.done_at, 1000ns + 20ms);
}

TEST(RequestPlacement, WhereNothingIsKnownTheFewestInHandDecide) {
  Bed bed;
  bed.slices.reserve(3);
  bed.Add(0, 1).in_hand = 2;
  bed.Add(1, 1000).in_hand = 1;
  bed.Add(2, 1).in_hand = 1;
  EXPECT_EQ(bed.Place(kAlice, 0).slice, 1);
  bed.slices[2].in_hand = 0;
  EXPECT_EQ(bed.Place(kAlice, 0).slice, 2);
}

TEST(RequestPlacement, ASliceThatNobodyKnowsIsTriedWhenItIsIdleAndNotFloodedUntilItIsKnown) {
  Bed bed;
  bed.slices.reserve(2);
  bed.Add(0, 1);
  SliceState& unknown = bed.Add(1, 1);
  const std::vector<std::chrono::nanoseconds> learnt = {20ms, 0ns};
  RequestDemand demand{kAlice, 0, bed.with_model};
  demand.learnt = learnt;
  const auto place = [&] { return PlaceRequest(demand, bed.slices, Isolation::kFraction, 1000ns).slice; };
  EXPECT_EQ(place(), 1);
  unknown.in_hand = 2;
  EXPECT_EQ(place(), 0);
}

TEST(RequestPlacement, AnotherTenantsSliceOrGpuIsNotShared) {
  Bed bed;
  bed.slices.reserve(2);
  bed.Add(0, 10).tenant = kBob;
  bed.Add(0, 1);
  EXPECT_EQ(bed.Place(kAlice, 1, Isolation::kNone).slice, 0);
  EXPECT_EQ(bed.Place(kAlice, 1, Isolation::kFraction).slice, 1);
  const auto placement = bed.Place(kAlice, 1, Isolation::kGpu);
  EXPECT_EQ(placement.slice, -1);
  EXPECT_EQ(placement.Reason(), "2 slices hold other tenants' requests");
  EXPECT_EQ(bed.Place(kBob, 1, Isolation::kGpu).slice, 0);
}

TEST(RequestPlacement, SaysWhyNot) {
  Bed bed;
  EXPECT_EQ(bed.Place(kAlice, 1).Reason(), "no living slice has the model");
  bed.slices.reserve(3);
  bed.Add(0, 1).cells_free = 0;
  bed.Add(1, 1).promised_to = kBob;
  bed.Add(2, 1).alive = false;
  EXPECT_EQ(bed.Place(kAlice, 1).Reason(), "1 slice is promised to another tenant, 1 slice is full");
}

TEST(RequestPlacement, TheExecutorThatDiedWithItIsTheLastResort) {
  Bed bed;
  bed.Add(0, 10, 0);
  EXPECT_EQ(bed.Place(kAlice, 1, Isolation::kNone, 0).slice, 0);
  bed.Add(1, 1, 1);
  EXPECT_EQ(bed.Place(kAlice, 1, Isolation::kNone, 0).slice, 1);
}

TEST(RequestPlacement, APromiseGoesToTheSliceThatIsFreeFirstAndOnlyOnce) {
  Bed bed;
  bed.slices.reserve(2);
  SliceState& late = bed.Add(0, 1);
  SliceState& soon = bed.Add(1, 1);
  late.tenant = soon.tenant = kBob;
  late.free_at = 5s;
  soon.free_at = 3s;
  const RequestDemand demand{kAlice, 1, bed.with_model, kNobody};
  EXPECT_EQ(SliceToPromise(demand, bed.slices, Isolation::kFraction), 1);
  soon.promised_to = kAlice;
  EXPECT_EQ(SliceToPromise(demand, bed.slices, Isolation::kFraction), -1);
  // Nobody's tenancy is in the way where everything is shared.
  soon.promised_to = kNobody;
  EXPECT_EQ(SliceToPromise(demand, bed.slices, Isolation::kNone), -1);
}

}  // namespace
}  // namespace spillway::scheduler

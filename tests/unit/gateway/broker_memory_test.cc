// SPDX-License-Identifier: Apache-2.0
// The broker's memory: limits, reserves, windows.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <tuple>

#include "broker_bed.h"

namespace spillway::gateway {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(Broker, AFullQueueAndFullMemoryAreBusy) {
  BrokerOptions options = BrokerBed::TwoTenants();
  options.tenants[kAlice].queue = 1;
  options.memory = 100;
  BrokerBed bed(options);
  bed.Join("host", 1, 1);
  bed.Ask();
  bed.Ask();
  bed.Ask();
  EXPECT_THAT(bed.answers[2], ElementsAre(Status::kBusy));
  EXPECT_THAT(bed.messages[2], HasSubstr("queue of 1"));
  bed.Ask(kBob, {}, 60);
  bed.Ask(kBob, {}, 60);
  EXPECT_THAT(bed.answers[4], ElementsAre(Status::kBusy));
  EXPECT_EQ(bed.broker.memory_held(), 60u);
  EXPECT_TRUE(bed.broker.Full({kBob}, 41));
  EXPECT_FALSE(bed.broker.Full({kBob}, 40));
}

TEST(Broker, WhatCanNeverFitIsTooLargeAndNotToldToComeAgain) {
  BrokerOptions options = BrokerBed::TwoTenants();
  options.memory = 100;
  BrokerBed bed(options);
  bed.Join("host");
  bed.Ask(kAlice, {}, 100);  // fills it: what never fits is told so all the same
  bed.Ask(kAlice, {}, 101);
  EXPECT_THAT(bed.answers[1], ElementsAre(Status::kTooLarge));
  EXPECT_EQ(bed.messages[1], "model m: 4 bytes of inputs and 97 of outputs exceed limits.memory, 100 bytes");
  bed.Ask(kAlice, {}, 100);
  EXPECT_THAT(bed.answers[2], ElementsAre(Status::kBusy));
  EXPECT_TRUE(bed.broker.CanFit(90, 10));
  EXPECT_FALSE(bed.broker.CanFit(90, 11));
  EXPECT_FALSE(bed.broker.CanFit(UINT64_MAX, 1)) << "sums do not wrap";
}

TEST(Broker, AModelOfWhichNoRowFitsIntoTheMemoryIsRefused) {
  BrokerOptions options = BrokerBed::TwoTenants();
  for (const auto& [memory, joins, four_fit] :  // a row is 4 bytes of inputs and 2 of outputs
       {std::tuple(5u, false, false), {6u, true, false}, {23u, true, false}, {24u, true, true}}) {
    options.memory = memory;
    BrokerBed bed(options);
    const auto joined = bed.broker.AddExecutor(SmallOffer("host"), bed.now);
    EXPECT_EQ(joined.has_value(), joins) << memory;
    if (!joined) {
      EXPECT_EQ(joined.error().message,
                "model m: one row: 4 bytes of inputs and 2 of outputs exceed limits.memory, 5 bytes");
    }
    EXPECT_EQ(bed.broker.CanFit(16, 8).has_value(), four_fit) << memory;
  }
}

TEST(Broker, AReserveOfTheMemoryIsItsOwnersAlone) {
  BrokerOptions options = BrokerBed::TwoTenants();
  options.memory = 100;
  options.tenants[kBob].reserve = 30;
  BrokerBed bed(options);
  bed.Join("host", 1, 4);
  bed.Ask(kAlice, {}, 71);
  EXPECT_THAT(bed.answers[0], ElementsAre(Status::kTooLarge)) << "never, not later";
  EXPECT_THAT(bed.messages[0], HasSubstr("70 of 100 bytes"));
  bed.Ask(kAlice, {}, 70);
  EXPECT_THAT(bed.answers[1], IsEmpty());
  bed.Ask(kAlice, {}, 1);
  EXPECT_THAT(bed.answers[2], ElementsAre(Status::kBusy));
  bed.Ask(kBob, {}, 30);
  EXPECT_THAT(bed.answers[3], IsEmpty());
  bed.Ask(kBob, {}, 1);
  EXPECT_THAT(bed.answers[4], ElementsAre(Status::kBusy));
}

TEST(Broker, OneFrontDoesNotUseUpTheOthersReserve) {
  BrokerOptions options = BrokerBed::TwoTenants();
  options.memory = 100;
  options.front_reserves = {20, 20};
  BrokerBed bed(options);
  const Account frames{kAlice, Front::kFrames}, http{kAlice, Front::kHttp};
  bed.broker.Hold(80, frames);
  EXPECT_TRUE(bed.broker.Full(frames, 1));
  EXPECT_FALSE(bed.broker.Full(http, 20));
  EXPECT_TRUE(bed.broker.Full(http, 21));
}

// A byte that came by a front whose reserve it used, and was a tenant's who has one, once counted against
// both: what others took meanwhile was missing when both were free again.
TEST(Broker, ReservesHoldWhateverWasHeldAndReleasedBefore) {
  BrokerOptions options = BrokerBed::TwoTenants();
  options.memory = 100;
  options.tenants[kBob].reserve = 30;
  options.front_reserves = {20, 20};
  BrokerBed bed(options);
  const Account alice{kAlice, Front::kFrames}, bob{kBob, Front::kHttp};
  bed.broker.Hold(20, bob);
  while (!bed.broker.Full(alice, 1)) bed.broker.Hold(1, alice);
  bed.broker.Release(20, bob);
  EXPECT_FALSE(bed.broker.Full(bob, 30));
  EXPECT_FALSE(bed.broker.Full({kBob, Front::kFrames}, 30));
  EXPECT_FALSE(bed.broker.Full({kAlice, Front::kHttp}, 20));
}

// Whoever comes and goes: as long as nothing is held that was refused, whoever has not used up his reserve
// has room for the rest of it.
TEST(Broker, EveryReserveHasRoomAtEveryMoment) {
  BrokerOptions options = BrokerBed::TwoTenants();
  options.memory = 100;
  options.tenants[kAlice].reserve = 15;
  options.tenants[kBob].reserve = 30;
  options.front_reserves = {20, 25};
  BrokerBed bed(options);
  std::mt19937 random(1);
  uint64_t held[2][2] = {};  // by tenant and front
  for (int step = 0; step < 20'000; step++) {
    const uint32_t tenant = random() % 2, front = random() % 2;
    const Account account{tenant, static_cast<Front>(front)};
    uint64_t& own = held[tenant][front];
    if (random() % 2 == 0) {
      const uint64_t bytes = 1 + random() % 40;
      if (bed.broker.Full(account, bytes)) continue;
      bed.broker.Hold(bytes, account);
      own += bytes;
    } else if (own > 0) {
      const uint64_t bytes = 1 + random() % own;
      bed.broker.Release(bytes, account);
      own -= bytes;
    }
    for (uint32_t t = 0; t < 2; t++)
      for (uint32_t f = 0; f < 2; f++) {
        const uint64_t of_tenant = held[t][0] + held[t][1], of_front = held[0][f] + held[1][f];
        const uint64_t reserve = options.tenants[t].reserve, front_reserve = options.front_reserves[f];
        if (of_tenant < reserve) {
          ASSERT_FALSE(bed.broker.Full({t, static_cast<Front>(f)}, reserve - of_tenant)) << "step " << step;
        }
        if (of_front < front_reserve) {
          ASSERT_FALSE(bed.broker.Full({t, static_cast<Front>(f)}, front_reserve - of_front))
              << "step " << step;
        }
      }
  }
}

TEST(Broker, WindowsHaveMemoryOfTheirOwnAndATenantPartOfIt) {
  BrokerOptions options = BrokerBed::TwoTenants();
  options.memory = 100;
  options.windows = 100;
  options.tenants[kBob].windows_reserve = 25;
  BrokerBed bed(options);
  EXPECT_EQ(bed.broker.HoldWindow(76, kAlice).error().code, ErrorCode::kBadInput) << "never";
  EXPECT_TRUE(bed.broker.HoldWindow(75, kAlice));
  EXPECT_EQ(bed.broker.HoldWindow(1, kAlice).error().code, ErrorCode::kConflict) << "not now";
  EXPECT_TRUE(bed.broker.HoldWindow(25, kBob));
  EXPECT_FALSE(bed.broker.Full({kAlice, Front::kHttp}, 100));
  bed.broker.ReleaseWindow(75, kAlice);
  EXPECT_TRUE(bed.broker.HoldWindow(75, kAlice));
}

}  // namespace
}  // namespace spillway::gateway

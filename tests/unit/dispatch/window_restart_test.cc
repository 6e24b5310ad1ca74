// SPDX-License-Identifier: Apache-2.0
// Remote producers that die: what they had is nobody else's loss, and the next one goes on in their ring.
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>

#include "window_bed.h"

namespace spillway::dispatch {
namespace {

class WindowRestarts : public WindowBed {
 protected:
  // Runs in a process of its own, which is then killed as by `kill -9`.
  static void InAKilledProcess(const std::function<void()>& work) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      work();
      raise(SIGKILL);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << status;
  }
  Users TakeAll() {
    Users users;
    for (Users more = Take(*worker_); !more.empty(); more = Take(*worker_))
      users.insert(users.end(), more.begin(), more.end());
    return users;
  }
};

TEST_F(WindowRestarts, AProducerThatFillsItsRingFreezesNobody) {
  auto window = OpenWindow(2);
  auto greedy = Map(*window, 0), modest = Map(*window, 1);
  for (uint64_t i = 0; i < 64; i++) EXPECT_EQ(PutRemote(*greedy, 1, i), 1u);
  EXPECT_EQ(PutRemote(*greedy, 1, 64), 0u);
  EXPECT_EQ(PutRemote(*modest, 2, 7), 1u);
  EXPECT_THAT(TakeAll(), testing::Contains(7));
}

TEST_F(WindowRestarts, AKilledProducerTakesNoCreditsWithIt) {
  auto window = OpenWindow(2);
  auto other = Map(*window, 1);
  for (uint64_t life = 0; life < 40; life++) {
    InAKilledProcess([&] { PutRemote(*Map(*window, 0), 1, life); });
    EXPECT_EQ(TakeAll(), Users{life}) << "the next producer goes on where the last one died";
  }
  const std::vector<Event> burst(64, MakeEvent(0, 2, 7));
  EXPECT_EQ(other->Enqueue(burst), 64u);
  EXPECT_EQ(TakeAll().size(), 64u);
  EXPECT_GT(Map(*window, 0)->Enqueue(burst), 48u)
      << "nor does any of those before; a ring is granted in quarters";
}

// Whoever shares the window can write the word, and places of 64 bits wrap at their end.
TEST_F(WindowRestarts, ANumberOfPlacesThatCannotBeHoldsNoProducerUp) {
  for (const uint64_t granted : {0ull, 1ull, 63ull, ~0ull, ~0ull - 3, ~0ull - 64, 1ull << 63}) {
    auto window = OpenWindow();
    WordsOf(*window).rings[0].granted.store(granted);
    auto producer = Map(*window);
    const std::vector<Event> burst(3, MakeEvent(0, 1, 7));
    for (int i = 0; i < 100; i++) EXPECT_LE(producer->Enqueue(burst), 3u) << granted;
  }
}

TEST_F(WindowRestarts, WhatAKilledProducerHadPutIsServed) {
  auto window = OpenWindow();
  InAKilledProcess([&] {
    auto producer = Map(*window);
    for (uint64_t i = 0; i < 5; i++) PutRemote(*producer, 1, i);
  });
  auto next = Map(*window);
  for (uint64_t i = 5; i < 8; i++) PutRemote(*next, 1, i);
  EXPECT_EQ(TakeAll(), (Users{0, 1, 2, 3, 4, 5, 6, 7}));
}

// A burst is written from its last event to its first.
TEST_F(WindowRestarts, HalfABurstIsLostWithItsProducer) {
  for (uint64_t before : {0, 5, 60, 62}) {
    auto window = OpenWindow();
    {
      auto producer = Map(*window);
      for (uint64_t i = 0; i < before; i++) PutRemote(*producer, 1, i);
      if (before == 62) {
        EXPECT_EQ(TakeAll().size(), 62u);
      }
    }
    const auto filled = [&](uint64_t place) {
      return LapOf(place, 6) | uint64_t{window->header().queue} << 32;
    };
    for (uint64_t place : {before + 1, before + 3}) Scribble(*window, place % 64, filled(place));
    auto next = Map(*window);
    EXPECT_EQ(PutRemote(*next, 1, 100), 1u);
    EXPECT_EQ(PutRemote(*next, 1, 101), 1u);
    Users users = TakeAll();
    ASSERT_GE(users.size(), 2u);
    EXPECT_EQ(Users(users.end() - 2, users.end()), (Users{100, 101})) << "after " << before;
    EXPECT_EQ(users.size(), (before == 62 ? 0 : before) + 2) << "nothing of the half burst comes";
    domain_->CloseWindow(*window);
  }
}

TEST_F(WindowRestarts, AFullRingIsTakenOverToo) {
  auto window = OpenWindow();
  InAKilledProcess([&] {
    auto producer = Map(*window);
    for (uint64_t i = 0; i < 64; i++) PutRemote(*producer, 1, i);
  });
  auto next = Map(*window);
  EXPECT_EQ(PutRemote(*next, 1, 64), 0u);
  EXPECT_EQ(TakeAll().size(), 64u);
  EXPECT_EQ(PutRemote(*next, 1, 64), 1u);
  EXPECT_EQ(TakeAll(), Users{64});
}

TEST_F(WindowRestarts, ARingHasOneProducerAtATime) {
  auto window = OpenWindow(2);
  auto first = Map(*window, 0);
  const auto second = RemoteProducer::Map(window->Fd(), 0);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, ErrorCode::kConflict);
  EXPECT_EQ(second.error().message, "window: ring 0 already has a producer");
  EXPECT_TRUE(window->HasProducer(0));
  EXPECT_FALSE(window->HasProducer(1));
  Map(*window, 1);
  first.reset();
  EXPECT_FALSE(window->HasProducer(0));
  Map(*window, 0);
}

// As of a producer that no lock keeps out: one on a SmartNIC.
TEST_F(WindowRestarts, WhoIsReplacedWritesNoMore) {
  auto window = OpenWindow();
  auto producer = Map(*window);
  EXPECT_EQ(PutRemote(*producer, 1, 1), 1u);
  WordsOf(*window).rings[0].epoch.fetch_add(1);
  EXPECT_EQ(PutRemote(*producer, 1, 2), 0u);
  EXPECT_EQ(producer->Closed(), WindowClosed::kReplaced);
  EXPECT_EQ(window->Statistics().closed, WindowClosed::kOpen) << "the window serves the successor";
}

}  // namespace
}  // namespace spillway::dispatch

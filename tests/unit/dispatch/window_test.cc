// SPDX-License-Identifier: Apache-2.0
// Remote producers: what they put is served like any event; what they do wrong costs them alone.
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <thread>

#include "window_bed.h"

namespace spillway::dispatch {
namespace {

class Windows : public WindowBed {};

TEST_F(Windows, RemoteEventsAreServedInTheirOrder) {
  auto window = OpenWindow();
  auto producer = Map(*window);
  for (uint64_t i = 0; i < 10; i++) EXPECT_EQ(PutRemote(*producer, 1, i), 1u);
  EXPECT_EQ(Take(*worker_), (Users{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
  EXPECT_EQ(window->Statistics().events, 10u);
}

TEST_F(Windows, CreditsComeBackLapAfterLap) {
  auto window = OpenWindow();
  auto producer = Map(*window);
  uint64_t put = 0, got = 0;
  for (int lap = 0; lap < 50; lap++) {
    while (PutRemote(*producer, 7, put) == 1) put++;
    EXPECT_LE(put - got, 64u) << "never more than the window has slots";
    for (Users users = Take(*worker_, 32); !users.empty(); users = Take(*worker_, 32)) {
      for (uint64_t user : users) EXPECT_EQ(user, got++);
    }
  }
  EXPECT_EQ(put, got);
  EXPECT_GT(put, 50u * 40);
}

TEST_F(Windows, WhatABurstTookBeyondTheGrantGoesBack) {
  auto window = OpenWindow();
  auto producer = Map(*window);
  const std::vector<Event> burst(48, MakeEvent(0, 1, 5));
  for (int lap = 0; lap < 50; lap++) {
    EXPECT_EQ(producer->Enqueue(burst), 48u);
    EXPECT_EQ(producer->Enqueue(burst), 16u);
    size_t got = 0;
    for (size_t more = 1; more > 0; got += more) more = Take(*worker_, 32).size();
    EXPECT_EQ(got, 64u);
  }
}

TEST_F(Windows, ProducersWithARingEachKeepTheirOrder) {
  auto window = OpenWindow(3);
  std::vector<std::unique_ptr<RemoteProducer>> producers;
  for (uint32_t ring = 0; ring < 3; ring++) producers.push_back(Map(*window, ring));
  std::vector<uint64_t> put(3), got(3);
  for (int lap = 0; lap < 100; lap++) {
    for (uint32_t ring = 0; ring < 3; ring++) {
      while (PutRemote(*producers[ring], ring, ring << 20 | put[ring]) == 1) put[ring]++;
      EXPECT_LE(put[ring] - got[ring], 64u) << "never more than a ring has slots";
    }
    for (Users users = Take(*worker_); !users.empty(); users = Take(*worker_)) {
      for (uint64_t user : users) EXPECT_EQ(user & 0xFFFFF, got[user >> 20]++);
    }
  }
  EXPECT_EQ(put, got);
  EXPECT_GT(put[2], 50u * 40);
}

TEST_F(Windows, AtomicityHoldsAcrossWindowsAndLocalProducers) {
  auto window = OpenWindow();
  auto remote = Map(*window);
  auto local = AddPort(), other = AddPort({queue_});
  EXPECT_EQ(Put(*local, queue_, 1, 1), 1u);
  EXPECT_EQ(Take(*other), Users{1});
  EXPECT_EQ(PutRemote(*remote, 1, 2), 1u);
  EXPECT_EQ(Take(*worker_), Users{}) << "flow 1 is at the other worker";
  other->Release(1);
  EXPECT_EQ(Take(*worker_), Users{2});
}

// Of a domain of 4096 credits: what waits for a busy worker holds credits, which others need.
TEST_F(Windows, EventsOfOneSlowFlowDoNotTakeTheDomainsCredits) {
  const uint16_t elsewhere = AddQueue(Kind::kDirected);
  auto window = OpenWindow(), second = OpenWindow();
  auto flood = Map(*window), polite = Map(*second);
  auto local = AddPort(), slow = AddPort({queue_});
  uint64_t put = 0;
  while (put < 2) put += PutRemote(*flood, 1, put);
  ASSERT_EQ(Take(*slow, 1), Users{0});
  for (size_t before = ~size_t{0}; before != put;) {
    before = put;
    while (PutRemote(*flood, 1, put) == 1) put++;
    EXPECT_EQ(Take(*worker_), Users{}) << "flow 1 is at the other worker";
  }
  PutRemote(*polite, 2, 77);
  EXPECT_EQ(Take(*worker_), Users{77}) << "another window is served";
  size_t taken = 0;
  while (taken < 4096 && Put(*local, elsewhere, 5, taken) == 1) taken++;
  EXPECT_GE(taken, 2048u) << "of the credits most are left to others";
  slow->Release(1);
  uint64_t next = 1;
  for (Users users = Take(*worker_); !users.empty(); users = Take(*worker_)) {
    for (uint64_t user : users) EXPECT_EQ(user, next++) << "in their order";
    while (put < 9000 && PutRemote(*flood, 1, put) == 1) put++;
  }
  EXPECT_EQ(next, put) << "and the window goes on";
}

// The count goes with the window, what is set aside does not (ASan: nothing is written to what is gone).
TEST_F(Windows, AWindowGoesWhileItsEventsAreSetAside) {
  auto window = OpenWindow();
  auto producer = Map(*window);
  auto other = AddPort({queue_});
  for (uint64_t user = 1; user <= 2; user++) PutRemote(*producer, 1, user);
  EXPECT_EQ(Take(*other, 1), Users{1});
  EXPECT_EQ(Take(*worker_), Users{});
  producer.reset();
  domain_->CloseWindow(*window);
  window.reset();
  other->Release(1);
  EXPECT_EQ(Take(*worker_), Users{2});
}

TEST_F(Windows, ComeAndGoWhileOthersAreServed) {
  auto first = OpenWindow();
  auto of_first = Map(*first);
  PutRemote(*of_first, 1, 1);
  EXPECT_EQ(Take(*worker_), Users{1}) << "alone";
  auto second = OpenWindow();
  auto of_second = Map(*second);
  PutRemote(*of_first, 1, 2);
  PutRemote(*of_second, 2, 3);
  Users of_both = Take(*worker_);
  std::sort(of_both.begin(), of_both.end());
  EXPECT_EQ(of_both, (Users{2, 3}));
  of_first.reset();
  domain_->CloseWindow(*first);
  first.reset();
  PutRemote(*of_second, 2, 4);
  EXPECT_EQ(Take(*worker_), Users{4}) << "the other one is alone";
  auto local = AddPort();
  Put(*local, queue_, 3, 5);
  PutRemote(*of_second, 2, 6);
  Users both = Take(*worker_);
  std::sort(both.begin(), both.end());
  EXPECT_EQ(both, (Users{5, 6}));
  domain_->CloseWindow(*second);
  of_second.reset();
  second.reset();
  Put(*local, queue_, 3, 7);
  EXPECT_EQ(Take(*worker_), Users{7}) << "none";
}

// Of a directed queue nobody has the lock while it has no windows (for TSan: the race was one of this kind).
TEST_F(Windows, OfADirectedQueueComeAndGoWhileItIsServed) {
  queue_ = AddQueue(Kind::kDirected);
  auto server = AddPort({queue_}, true);
  std::atomic<uint64_t> last{0};
  std::atomic<bool> stop{false};
  std::thread serving([&] {
    while (!stop) {
      for (uint64_t user : Take(*server)) last = user;
    }
  });
  for (uint64_t user = 1; user <= 200; user++) {
    auto window = OpenWindow();
    auto producer = Map(*window);
    EXPECT_EQ(PutRemote(*producer, 1, user), 1u);
    while (last != user) std::this_thread::yield();
    domain_->CloseWindow(*window);
  }
  stop = true;
  serving.join();
}

TEST_F(Windows, AnOrderedQueueTakesThemToo) {
  const uint16_t ordered = AddQueue(Kind::kOrdered), out = AddQueue(Kind::kDirected);
  WindowOptions options;
  options.queue = ordered;
  options.slots = 64;
  auto window = *domain_->OpenWindow(options);
  auto producer = Map(*window);
  auto a = AddPort({ordered}), b = AddPort({ordered}), sink = AddPort({out}, true);
  for (uint64_t i = 0; i < 2; i++) PutRemote(*producer, 1, i);
  EXPECT_EQ(Take(*a, 1), Users{0});
  EXPECT_EQ(Take(*b, 1), Users{1});
  EXPECT_EQ(Forward(*b, out, 1, 1), 1u);
  EXPECT_EQ(Take(*sink), Users{});
  EXPECT_EQ(Forward(*a, out, 1, 0), 1u);
  EXPECT_EQ(Take(*sink), (Users{0, 1}));
}

TEST_F(Windows, WithoutDomainCreditsEventsWaitInTheWindow) {
  auto window = OpenWindow();
  auto producer = Map(*window);
  auto local = AddPort();
  while (Put(*local, queue_, 5, 5) == 1) {
  }
  EXPECT_EQ(PutRemote(*producer, 1, 77), 1u);
  size_t seen = 0;
  for (Users users = Take(*worker_); !users.empty(); users = Take(*worker_)) seen += users.size();
  EXPECT_EQ(seen, 4096u + 1);
}

TEST_F(Windows, RubbishClosesTheWindowAndIsCounted) {
  const std::vector<uint64_t> rubbish = {kLapBit | uint64_t{999} << 32, kLapBit | uint64_t{7} << 48,
                                         kLapBit | uint64_t{3} << kOpShift, ~uint64_t{0}};
  for (const uint64_t meta : rubbish) {
    auto window = OpenWindow();
    auto producer = Map(*window);
    EXPECT_EQ(PutRemote(*producer, 1, 1), 1u);
    Scribble(*window, 1, meta);
    EXPECT_EQ(Take(*worker_), Users{1}) << "what came before the rubbish is served";
    EXPECT_EQ(window->Statistics().closed, WindowClosed::kBadEvent);
    EXPECT_EQ(window->Statistics().bad_events, 1u);
    EXPECT_EQ(PutRemote(*producer, 1, 2), 0u) << "and the producer is told";
    EXPECT_EQ(producer->Closed(), WindowClosed::kBadEvent);
    domain_->CloseWindow(*window);
  }
  auto healthy = OpenWindow();
  auto producer = Map(*healthy);
  PutRemote(*producer, 1, 5);
  EXPECT_EQ(Take(*worker_), Users{5}) << "others do not notice";
}

TEST_F(Windows, OfABurstWhatCameBeforeTheRubbishIsServed) {
  // Three priorities: not all that the lowest ones' bits could say are allowed.
  auto window = OpenWindow(1, 3);
  auto producer = Map(*window);
  std::vector<Event> burst;
  for (uint64_t i = 0; i < 8; i++)
    burst.push_back(MakeEvent(0, static_cast<uint32_t>(i), i, static_cast<uint8_t>(i % 3)));
  ASSERT_EQ(producer->Enqueue(burst), 8u);
  EXPECT_EQ(Take(*worker_), (Users{0, 1, 2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(window->Statistics().closed, WindowClosed::kOpen);
  burst[5].priority = 3;
  ASSERT_EQ(producer->Enqueue(burst), 8u);
  EXPECT_EQ(Take(*worker_), (Users{0, 1, 2, 3, 4}));
  EXPECT_EQ(window->Statistics().closed, WindowClosed::kBadEvent);
  EXPECT_EQ(window->Statistics().bad_events, 1u);
  EXPECT_EQ(Take(*worker_), Users());
}

TEST_F(Windows, WhoFillsSlotsBeforeTheyAreGrantedLosesItsOwnEvents) {
  auto window = OpenWindow(2);
  auto honest = Map(*window, 1);
  for (uint64_t lap = 0; lap < 3; lap++) {
    // All of a lap, and half of the next one over it.
    for (uint64_t place = lap * 64; place < lap * 64 + 96; place++)
      Scribble(*window, place % 64, LapOf(place, 6) | uint64_t{queue_} << 32);
    EXPECT_EQ(PutRemote(*honest, 1, 100 + lap), 1u);
    Users users;
    for (Users more = Take(*worker_); !more.empty(); more = Take(*worker_))
      users.insert(users.end(), more.begin(), more.end());
    EXPECT_LE(users.size(), 65u);
    EXPECT_EQ(std::count(users.begin(), users.end(), 100 + lap), 1) << "others do not notice";
  }
}

TEST_F(Windows, ScribblingOverTheWordsOfARingCostsItsProducerAlone) {
  auto window = OpenWindow(2);
  auto producer = Map(*window, 0), other = Map(*window, 1);
  std::memset(static_cast<void*>(&WordsOf(*window).rings[0]), 0xFF, sizeof(RingWords));
  EXPECT_EQ(PutRemote(*producer, 1, 1), 0u);
  for (uint64_t i = 0; i < 200; i++) {
    EXPECT_EQ(PutRemote(*other, 1, i), 1u);
    EXPECT_EQ(Take(*worker_), Users{i});
  }
}

TEST_F(Windows, ScribblingOverTheHeaderChangesNothing) {
  auto window = OpenWindow();
  auto producer = Map(*window);
  std::memset(window->memory(), 0xFF, sizeof(WindowHeader));
  EXPECT_EQ(PutRemote(*producer, 1, 3), 1u);
  EXPECT_EQ(Take(*worker_), Users{3});
}

TEST_F(Windows, AProducerThatStallsHoldsNobodyUp) {
  auto window = OpenWindow(2);
  auto stalled = Map(*window, 0), busy = Map(*window, 1);
  // Left the first slot empty.
  Scribble(*window, 1, kLapBit | uint64_t{queue_} << 32);
  for (uint64_t i = 0; i < 20; i++) {
    EXPECT_EQ(PutRemote(*busy, 1, i), 1u);
    EXPECT_EQ(Take(*worker_), Users{i});
  }
  EXPECT_EQ(window->Statistics().closed, WindowClosed::kOpen);
}

TEST_F(Windows, RefusesWhatIsNoWindow) {
  auto window = OpenWindow();
  EXPECT_EQ(RemoteProducer::Map(window->Fd(), 1).error().code, ErrorCode::kBadInput);
  WordsOf(*window).header.version = kWindowVersion + 1;
  EXPECT_EQ(RemoteProducer::Map(window->Fd(), 0).error().code, ErrorCode::kBadInput);
  WordsOf(*window).header.version = kWindowVersion;
  WordsOf(*window).header.slots = 128;
  EXPECT_EQ(RemoteProducer::Map(window->Fd(), 0).error().code, ErrorCode::kBadInput);
  WordsOf(*window).header.magic = 1;
  EXPECT_EQ(RemoteProducer::Map(window->Fd(), 0).error().code, ErrorCode::kBadInput);
  WindowOptions options;
  options.queue = 77;
  EXPECT_EQ(domain_->OpenWindow(options).error().code, ErrorCode::kBadInput);
  options.queue = queue_;
  options.slots = 100;
  EXPECT_EQ(domain_->OpenWindow(options).error().code, ErrorCode::kBadInput);
}

TEST_F(Windows, CannotBeCutShortByTheirProducer) {
  auto window = OpenWindow();
  EXPECT_NE(ftruncate(window->Fd(), 0), 0);
}

TEST_F(Windows, AnotherProcessGetsItOverASocketAndMayDieInTheMiddle) {
  auto window = OpenWindow();
  int sockets[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, sockets), 0);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    close(sockets[0]);
    const auto received = ReceiveWindow(sockets[1]);
    if (!received) _exit(1);
    auto producer = RemoteProducer::Map(received->fd, received->ring);
    if (!producer) _exit(2);
    for (uint64_t i = 0; i < 5; i++) {
      if (PutRemote(**producer, 1, i) != 1) _exit(3);
    }
    raise(SIGKILL);
  }
  close(sockets[1]);
  ASSERT_TRUE(SendWindow(sockets[0], window->Fd(), 0));
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status)) << "exit " << WEXITSTATUS(status);
  EXPECT_EQ(Take(*worker_), (Users{0, 1, 2, 3, 4}));
  EXPECT_EQ(Take(*worker_), Users{});
  // The next one has a window of its own.
  domain_->CloseWindow(*window);
  auto next = OpenWindow();
  auto producer = Map(*next);
  PutRemote(*producer, 1, 9);
  EXPECT_EQ(Take(*worker_), Users{9});
  close(sockets[0]);
}

TEST_F(Windows, AMessageThatCarriesNoneIsRefused) {
  int sockets[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, sockets), 0);
  ASSERT_EQ(write(sockets[0], "hello", 5), 5);
  EXPECT_EQ(ReceiveWindow(sockets[1]).error().code, ErrorCode::kBadInput);
  close(sockets[0]);
  close(sockets[1]);
}

}  // namespace
}  // namespace spillway::dispatch

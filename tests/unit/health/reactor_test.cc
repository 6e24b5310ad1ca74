// SPDX-License-Identifier: Apache-2.0
#include "health/reactor.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <functional>

#include "base/fd.h"

namespace spillway::health {
namespace {

using std::chrono::milliseconds;

struct Counter : EventHandler {
  void OnEvents(int, uint32_t) override { ++events; }
  int events = 0;
};

void MakeReadable(int event) {
  const uint64_t one = 1;
  ASSERT_EQ(write(event, &one, sizeof(one)), static_cast<ssize_t>(sizeof(one)));
}

// As where a child that was just started has a copy of all descriptors.
TEST(Reactor, EventsOfAClosedDescriptorThatIsOpenElsewhereReachNobody) {
  auto reactor = Reactor::Create();
  ASSERT_TRUE(reactor);
  Counter before, after;
  base::Fd old(eventfd(0, EFD_NONBLOCK));
  const base::Fd copy(fcntl(old.get(), F_DUPFD_CLOEXEC, 100));
  const int number = old.get();
  ASSERT_EQ((*reactor)->Add(number, EPOLLIN, &before), 0);
  (*reactor)->Forget(number);
  old.Reset();
  const base::Fd next(eventfd(0, EFD_NONBLOCK));
  ASSERT_EQ(next.get(), number);
  ASSERT_EQ((*reactor)->Add(number, EPOLLIN, &after), 0);

  MakeReadable(copy.get());
  (*reactor)->Wait(milliseconds(1000));
  (*reactor)->Dispatch();
  EXPECT_EQ(before.events, 0);
  EXPECT_EQ(after.events, 0);

  MakeReadable(number);
  (*reactor)->Wait(milliseconds(1000));
  (*reactor)->Dispatch();
  EXPECT_EQ(after.events, 1);
}

struct Closer : EventHandler {
  void OnEvents(int, uint32_t) override { close(); }
  std::function<void()> close;
};

TEST(Reactor, AnEventThatWasFetchedForTheNumbersFormerOwnerReachesNobody) {
  auto reactor = Reactor::Create();
  ASSERT_TRUE(reactor);
  base::Fd first(eventfd(1, EFD_NONBLOCK)), second(eventfd(1, EFD_NONBLOCK));
  base::Fd next;
  Counter after;
  Closer closes;
  closes.close = [&] {
    const int number = second.get();
    (*reactor)->Forget(number);
    second.Reset();
    next.Reset(eventfd(0, EFD_NONBLOCK));
    ASSERT_EQ(next.get(), number);
    ASSERT_EQ((*reactor)->Add(number, EPOLLIN, &after), 0);
  };
  ASSERT_EQ((*reactor)->Add(first.get(), EPOLLIN, &closes), 0);
  ASSERT_EQ((*reactor)->Add(second.get(), EPOLLIN, &after), 0);
  (*reactor)->Wait(milliseconds(1000));
  (*reactor)->Dispatch();
  EXPECT_TRUE(next);
  EXPECT_EQ(after.events, 0);
}

}  // namespace
}  // namespace spillway::health

// SPDX-License-Identifier: Apache-2.0
// Remote events wait in windows, local ones in rings: workers take both by priority, and neither starves.
#include <gmock/gmock.h>

#include "window_bed.h"

namespace spillway::dispatch {
namespace {

class WindowPriorities : public WindowBed {
 protected:
  void SetUp() override {
    WindowBed::SetUp();
    local_ = AddPort();
  }
  // Before each of `pulls` bursts of `burst`, so much is put locally that it would fill the burst.
  Users PullsUnderLocalLoad(int pulls, size_t burst, uint8_t priority) {
    Users users;
    for (int i = 0; i < pulls; i++) {
      for (size_t e = 0; e < 2 * burst; e++) Put(*local_, queue_, next_flow_++, kLocal, priority);
      for (uint64_t user : Take(*worker_, burst)) users.push_back(user);
    }
    return users;
  }
  static constexpr uint64_t kLocal = 1'000'000;
  std::unique_ptr<Port> local_;
  uint32_t next_flow_ = 100;
};

TEST_F(WindowPriorities, LocalLoadDoesNotStarveAWindow) {
  auto window = OpenWindow();
  auto remote = Map(*window);
  for (uint64_t i = 0; i < 8; i++) PutRemote(*remote, 1, i);
  EXPECT_THAT(PullsUnderLocalLoad(2, 8, 0), testing::IsSupersetOf({0, 1, 2, 3, 4, 5, 6, 7}));
}

TEST_F(WindowPriorities, AWindowUnderLoadDoesNotStarveLocalEvents) {
  auto window = OpenWindow();
  auto remote = Map(*window);
  for (uint64_t i = 0; i < 64; i++) PutRemote(*remote, 1, i);
  for (uint64_t i = 0; i < 8; i++) Put(*local_, queue_, 2, kLocal);
  Users users = Take(*worker_, 8);
  for (uint64_t user : Take(*worker_, 8)) users.push_back(user);
  EXPECT_THAT(users, testing::Contains(kLocal).Times(8));
}

TEST_F(WindowPriorities, EachWindowHasItsTurn) {
  std::vector<std::shared_ptr<Window>> windows;
  std::vector<std::unique_ptr<RemoteProducer>> remotes;
  for (uint64_t w = 0; w < 3; w++) {
    windows.push_back(OpenWindow());
    remotes.push_back(Map(*windows.back()));
    for (int i = 0; i < 64; i++) PutRemote(*remotes.back(), static_cast<uint32_t>(w), w);
  }
  Users users;
  for (int i = 0; i < 3; i++) {
    for (uint64_t user : Take(*worker_, 8)) users.push_back(user);
  }
  for (uint64_t w = 0; w < 3; w++) EXPECT_THAT(users, testing::Contains(w).Times(8));
}

TEST_F(WindowPriorities, AWorkerTakesNoMoreThanItsShareOfAWindow) {
  auto window = OpenWindow(2, 2);
  auto first = Map(*window, 0), second = Map(*window, 1);
  std::vector<std::unique_ptr<Port>> others;
  for (int i = 0; i < 7; i++) others.push_back(AddPort({queue_}));
  for (uint32_t i = 0; i < 20; i++) PutRemote(*first, i * 0x01000193u, i, i % 2);
  for (uint32_t i = 20; i < 32; i++) PutRemote(*second, i * 0x01000193u, i);
  EXPECT_EQ(Take(*worker_, 32).size(), 4u);
}

TEST_F(WindowPriorities, UrgentRemoteEventsGoBeforeOtherLocalOnes) {
  auto window = OpenWindow(1, 2);
  auto remote = Map(*window);
  for (uint64_t i = 0; i < 8; i++) Put(*local_, queue_, 2, kLocal, 1);
  PutRemote(*remote, 1, 7, 0);
  EXPECT_THAT(Take(*worker_, 2), testing::ElementsAre(7, kLocal));
}

TEST_F(WindowPriorities, UrgentLocalEventsGoBeforeOtherRemoteOnes) {
  auto window = OpenWindow(1, 3);
  auto remote = Map(*window);
  for (uint64_t i = 0; i < 8; i++) PutRemote(*remote, 1, i, 2);
  for (int pull = 0; pull < 4; pull++) {
    Put(*local_, queue_, 2, kLocal, 1);
    EXPECT_THAT(Take(*worker_, 2), testing::ElementsAre(kLocal, pull)) << "whatever window's turn it is";
  }
}

TEST_F(WindowPriorities, TheStarvationGuardIsForWindowsToo) {
  auto window = OpenWindow(1, 8);
  auto remote = Map(*window);
  PutRemote(*remote, 1, 7, 7);
  EXPECT_THAT(PullsUnderLocalLoad(16, 4, 0), testing::Contains(7)) << "one pull in 16 starts with the lowest";
}

TEST_F(WindowPriorities, ARingKeepsItsOrder) {
  auto window = OpenWindow(1, 3);
  auto remote = Map(*window);
  Users put;
  for (uint64_t i = 0; i < 60; i++) {
    PutRemote(*remote, 1, i, static_cast<uint8_t>(i * 7 % 3));
    put.push_back(i);
  }
  Users users;
  for (Users more = Take(*worker_, 7); !more.empty(); more = Take(*worker_, 7))
    users.insert(users.end(), more.begin(), more.end());
  EXPECT_EQ(users, put);
}

TEST_F(WindowPriorities, OtherRingsAreNotHeldUpByALessUrgentEvent) {
  auto window = OpenWindow(2, 2);
  auto idle = Map(*window, 0), urgent = Map(*window, 1);
  for (uint64_t i = 0; i < 8; i++) PutRemote(*idle, 1, 100 + i, 1);
  PutRemote(*urgent, 2, 7, 0);
  EXPECT_THAT(Take(*worker_, 2), testing::ElementsAre(7, 100));
}

}  // namespace
}  // namespace spillway::dispatch

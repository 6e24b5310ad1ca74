// SPDX-License-Identifier: Apache-2.0
#include "gateway/transport/aside.h"

#include <gtest/gtest.h>

#include <latch>
#include <memory>
#include <optional>
#include <semaphore>
#include <string>

namespace spillway::gateway {
namespace {

TEST(Aside, DoesItElsewhereInOrderAndHasTheResultTakenHere) {
  std::counting_semaphore<> done{0};
  Aside aside(1, [&] { done.release(); });
  std::string said;
  const auto here = std::this_thread::get_id();
  for (const char letter : {'a', 'b', 'c'})
    aside.Ask(1, [&, letter]() -> Aside::Then {
      const auto there = std::this_thread::get_id();
      return [&, letter, there] {
        EXPECT_NE(there, here);
        said += letter;
      };
    });
  for (int i = 0; i < 3; i++) done.acquire();
  EXPECT_EQ(said, "");
  for (const Aside::Then& then : aside.Take()) then();
  EXPECT_EQ(said, "abc");
  EXPECT_TRUE(aside.Take().empty());
}

TEST(Aside, DoesNotBeginWhatIsForgotten) {
  std::counting_semaphore<> done{0};
  std::latch begun{1}, goes_on{1};
  Aside aside(1, [&] { done.release(); });
  aside.Ask(1, [&]() -> Aside::Then {
    begun.count_down();
    goes_on.wait();
    return {};
  });
  begun.wait();
  bool is_forgotten_done = false;
  aside.Ask(2, [&]() -> Aside::Then {
    is_forgotten_done = true;
    return {};
  });
  aside.Ask(3, []() -> Aside::Then { return [] {}; });
  aside.Forget(2);
  goes_on.count_down();
  done.acquire();
  EXPECT_FALSE(is_forgotten_done);
  EXPECT_EQ(aside.Take().size(), 1u) << "of the first there is nothing to take";
}

TEST(Aside, AtItsEndWaitsForWhatHasBegunAndFreesWhatOthersHold) {
  std::latch begun{1}, goes_on{1};
  bool is_done = false;
  const auto held = std::make_shared<int>(1);
  std::optional<Aside> aside;
  aside.emplace(1, [] {});
  aside->Ask(1, [&]() -> Aside::Then {
    begun.count_down();
    goes_on.wait();
    is_done = true;
    return {};
  });
  begun.wait();
  aside->Ask(2, [held]() -> Aside::Then { return {}; });
  goes_on.count_down();
  aside.reset();
  EXPECT_TRUE(is_done);
  EXPECT_EQ(held.use_count(), 1);
}

}  // namespace
}  // namespace spillway::gateway

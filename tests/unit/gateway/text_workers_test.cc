// SPDX-License-Identifier: Apache-2.0
#include "gateway/http/text_workers.h"

#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <string>
#include <thread>

namespace spillway::gateway {
namespace {

TEST(TextWorkers, ATenantWaitsForItselfAlone) {
  std::promise<void> go_on, other_done;
  TextWorkers workers;
  workers.Do(0, TextWorkers::Kind::kRequest, [&] { go_on.get_future().wait(); });
  workers.Do(7, TextWorkers::Kind::kRequest, [&] { other_done.set_value(); });
  other_done.get_future().wait();
  go_on.set_value();
}

TEST(TextWorkers, AnswersComeBeforeRequests) {
  std::string order;
  std::promise<void> begun, go_on, done;
  TextWorkers workers;
  workers.Do(0, TextWorkers::Kind::kRequest, [&] {
    begun.set_value();
    go_on.get_future().wait();
  });
  begun.get_future().wait();
  for (const char* job : {"r1 ", "r2 "})
    workers.Do(0, TextWorkers::Kind::kRequest, [&order, job] { order += job; });
  for (const char* job : {"a1 ", "a2 "})
    workers.Do(0, TextWorkers::Kind::kAnswer, [&order, job] { order += job; });
  workers.Do(0, TextWorkers::Kind::kRequest, [&] { done.set_value(); });
  go_on.set_value();
  done.get_future().wait();
  EXPECT_EQ(order, "a1 a2 r1 r2 ");
}

TEST(TextWorkers, EndWhileTheyHaveWork) {
  auto owned = std::make_shared<int>(0);
  std::promise<void> begun, go_on;
  bool done = false;
  std::thread elsewhere;
  {
    TextWorkers workers;
    workers.Do(0, TextWorkers::Kind::kRequest, [&] {
      begun.set_value();
      go_on.get_future().wait();
      done = true;
    });
    workers.Do(0, TextWorkers::Kind::kRequest, [owned] {});
    begun.get_future().wait();
    elsewhere = std::thread([&] { go_on.set_value(); });
  }
  elsewhere.join();
  EXPECT_TRUE(done);
  EXPECT_EQ(owned.use_count(), 1) << "what is dropped is let go";
}

}  // namespace
}  // namespace spillway::gateway

// SPDX-License-Identifier: Apache-2.0
#include "gateway/http/text_worker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <string>
#include <thread>

namespace spillway::gateway {
namespace {

TEST(TextWorker, TenantsTakeTurnsWhateverOneHasWaiting) {
  std::string order;
  std::promise<void> begun, all_wait, done;
  TextWorker worker;
  worker.Do(0, [&] {
    begun.set_value();
    all_wait.get_future().wait();
  });
  begun.get_future().wait();
  for (const char* job : {"a1 ", "a2 ", "a3 "}) worker.Do(0, [&order, job] { order += job; });
  worker.Do(7, [&] { order += "c1 "; });
  for (const char* job : {"b1 ", "b2 "}) worker.Do(1, [&order, job] { order += job; });
  worker.Do(7, [&] { order += "c2 "; });
  worker.Do(0, [&] { done.set_value(); });
  all_wait.set_value();
  done.get_future().wait();
  EXPECT_EQ(order, "b1 c1 a1 b2 c2 a2 a3 ");
}

TEST(TextWorker, EndsWhileItHasWork) {
  auto owned = std::make_shared<int>(0);
  std::promise<void> begun, go_on;
  bool done = false;
  std::thread elsewhere;
  {
    TextWorker worker;
    worker.Do(0, [&] {
      begun.set_value();
      go_on.get_future().wait();
      done = true;
    });
    worker.Do(0, [owned] {});
    begun.get_future().wait();
    elsewhere = std::thread([&] { go_on.set_value(); });
  }
  elsewhere.join();
  EXPECT_TRUE(done);
  EXPECT_EQ(owned.use_count(), 1) << "what is dropped is let go";
}

}  // namespace
}  // namespace spillway::gateway

// SPDX-License-Identifier: Apache-2.0
#include "lab/unit/emulated_workers.h"

#include <gtest/gtest.h>

namespace spillway::unit {
namespace {

Job At(std::int64_t due_ns, std::string bytes) {
  Job job;
  job.due_ns = due_ns;
  job.bytes = std::move(bytes);
  return job;
}

TEST(Pending, LeavesInOrderOfTimeAndThenOfArrival) {
  Pending pending;
  for (auto& [due, text] :
       std::vector<std::pair<int, std::string>>{{30, "d"}, {10, "a"}, {20, "b"}, {20, "c"}})
    pending.Add(At(due, text));
  std::string order;
  while (auto answer = pending.TakeDue(100)) order += answer->bytes;
  EXPECT_EQ(order, "abcd");
}

TEST(Pending, KeepsTheOrderOfManyThatAreDueAtOnce) {
  Pending pending;
  const std::string all = "abcdefghijklmnopqrstuvwxyz";
  for (char c : all) pending.Add(At(5, std::string(1, c)));
  std::string order;
  while (auto answer = pending.TakeDue(5)) order += answer->bytes;
  EXPECT_EQ(order, all);
}

TEST(Pending, KeepsWhatIsNotYetDue) {
  Pending pending;
  EXPECT_FALSE(pending.NextDueNs().has_value());
  pending.Add(At(50, "x"));
  EXPECT_EQ(pending.NextDueNs(), 50);
  EXPECT_FALSE(pending.TakeDue(49).has_value());
  EXPECT_TRUE(pending.TakeDue(50).has_value());
}

}  // namespace
}  // namespace spillway::unit

// SPDX-License-Identifier: Apache-2.0
#include "lab/load/ledger.h"

#include <gtest/gtest.h>

namespace spillway::load {
namespace {

constexpr std::int64_t kTimeout = 1000;

class LedgerTest : public testing::Test {
 protected:
  // A request sent at once on `flow`.
  std::uint32_t Ask(std::int64_t at, std::uint32_t flow) {
    const std::uint32_t id = ledger_.Add(at, true);
    ledger_.Sent(id, flow, at);
    return id;
  }
  Ledger ledger_{16, kTimeout, true};
};

TEST_F(LedgerTest, TakesAnAnswerOnce) {
  const auto id = Ask(0, 3);
  ledger_.Answered(id, 3, 10, "a");
  ledger_.Answered(id, 3, 20, "a");
  EXPECT_EQ(ledger_.records()[id].received_ns, 10);
  EXPECT_EQ(ledger_.counters.duplicates, 1u);
}

TEST_F(LedgerTest, CountsTheTimeOutFromTheIntendedTime) {
  const auto id = ledger_.Add(0, true);
  ledger_.Sent(id, 0, 900);  // the client was late
  ledger_.Answered(id, 0, kTimeout + 1, "a");
  EXPECT_EQ(ledger_.counters.late, 1u);
  EXPECT_EQ(ledger_.records()[id].received_ns, kNever);
}

TEST_F(LedgerTest, TakesNoAnswerThatWasNotAskedForOnThatFlow) {
  const auto id = Ask(0, 1);
  ledger_.Answered(id, 2, 10, "a");
  ledger_.Answered(77, 1, 10, "a");
  ledger_.Answered(ledger_.Add(5, true), 0, 10, "a");  // never sent
  EXPECT_EQ(ledger_.counters.foreign, 3u);
  EXPECT_EQ(ledger_.records()[id].received_ns, kNever);
}

TEST_F(LedgerTest, CountsEachMoveOfAFlowToAnotherUnit) {
  for (const char* unit : {"a", "a", "b", "b", "a"}) ledger_.Answered(Ask(0, 1), 1, 1, unit);
  ledger_.Answered(Ask(0, 2), 2, 1, "b");  // another flow
  EXPECT_EQ(ledger_.counters.pcc_violations, 2u);
}

TEST_F(LedgerTest, CountsAMoveEvenWhenTheAnswerIsLate) {
  ledger_.Answered(Ask(0, 1), 1, 1, "a");
  ledger_.Answered(Ask(0, 1), 1, 2 * kTimeout, "b");
  EXPECT_EQ(ledger_.counters.pcc_violations, 1u);
}

TEST_F(LedgerTest, LetsANewConnectionMeetAnotherUnit) {
  ledger_.Answered(Ask(0, 1), 1, 1, "a");
  ledger_.FlowRestarts(1);
  ledger_.Answered(Ask(0, 1), 1, 1, "b");
  EXPECT_EQ(ledger_.counters.pcc_violations, 0u);
}

TEST_F(LedgerTest, IsSettledOnceAllIsAnsweredOrOverdue) {
  EXPECT_TRUE(ledger_.Settled(0));
  const auto id = Ask(100, 0);
  EXPECT_FALSE(ledger_.Settled(100 + kTimeout));
  EXPECT_TRUE(ledger_.Settled(101 + kTimeout));
  ledger_.Answered(id, 0, 150, "a");
  EXPECT_TRUE(ledger_.Settled(151));
}

}  // namespace
}  // namespace spillway::load

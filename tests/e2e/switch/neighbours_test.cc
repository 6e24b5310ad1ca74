// SPDX-License-Identifier: Apache-2.0
// What the switch asks of the kernel's neighbour table, in a namespace of its own.
#include "switch/neighbours.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <string>

#include "base/signals.h"
#include "lab/testbed/netns.h"
#include "lab/testbed/process.h"

namespace spillway::switching {
namespace {

constexpr const char *kNetns = "spw-e2e-neighbours", *kFarNetns = "spw-e2e-neighbours-far";

class NeighboursTest : public testing::Test {
 protected:
  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "needs root";
    TearDown();
    ASSERT_TRUE(lab::AddNetns(kNetns));
    ASSERT_TRUE(lab::AddNetns(kFarNetns));
    ASSERT_TRUE(lab::Run({"ip", "-n", kNetns, "-batch", "-"},
                         std::string("link add near type veth peer name far netns ") + kFarNetns +
                             "\nlink set near up\naddr add 10.1.0.1/24 dev near\n"
                             "neigh add 10.1.0.2 lladdr 02:00:00:00:00:02 dev near nud permanent\n"));
    Far("link set far up\naddr add 10.1.0.3/24 dev far\n");
  }
  void TearDown() override {
    lab::DeleteNetns(kNetns);
    lab::DeleteNetns(kFarNetns);
  }
  static void Far(const std::string& commands) {
    ASSERT_TRUE(lab::Run({"ip", "-n", kFarNetns, "-batch", "-"}, commands));
  }
};

TEST_F(NeighboursTest, APermanentEntrySurvivesBeingAskedAbout) {
  const auto done = lab::Inside(kNetns, []() -> Result<void> {
    auto neighbours = Neighbours::Open();
    if (!neighbours) return tl::make_unexpected(neighbours.error());
    const model::Address unit = *model::Address::Parse("10.1.0.2");
    for (int i = 0; i < 2; i++) {
      const auto hop = (*neighbours)->Find(unit).value();
      EXPECT_TRUE(hop && hop->mac == (Mac{2, 0, 0, 0, 0, 2}) && hop->is_fixed) << "before question " << i + 1;
      if (hop) (*neighbours)->Probe(*hop);
    }
    return {};
  });
  EXPECT_TRUE(done) << done.error().message;
}

TEST_F(NeighboursTest, WhatIsVerifiedAndDoesNotAnswerIsLost) {
  const auto done = lab::Inside(kNetns, []() -> Result<void> {
    std::ofstream("/proc/sys/net/ipv4/neigh/near/retrans_time_ms") << 10;
    auto neighbours = Neighbours::Open();
    if (!neighbours) return tl::make_unexpected(neighbours.error());
    const model::Address unit = *model::Address::Parse("10.1.0.3");
    const auto find = [&] { return (*neighbours)->Find(unit).value(); };
    const auto becomes = [&](bool known) {
      for (auto hop = find(); hop; hop = find()) {
        if (hop->mac.has_value() == known) return true;
        if (!known) continue;
        (*neighbours)->Probe(*hop);
        if (!base::SleepUnlessInterrupted(std::chrono::milliseconds(1))) break;
      }
      return false;
    };
    EXPECT_TRUE(becomes(true));
    (*neighbours)->Verify(*find());
    Far("addr del 10.1.0.3/24 dev far\n");
    (*neighbours)->Verify(*find());
    EXPECT_TRUE(becomes(false));
    return {};
  });
  EXPECT_TRUE(done) << done.error().message;
}

TEST_F(NeighboursTest, AnEntryThatIsGoneIsToldFromOneThatNobodyAnswersFor) {
  const auto done = lab::Inside(kNetns, []() -> Result<void> {
    std::ofstream("/proc/sys/net/ipv4/neigh/near/retrans_time_ms") << 10;
    auto neighbours = Neighbours::Open();
    if (!neighbours) return tl::make_unexpected(neighbours.error());
    const auto find = [&] { return (*neighbours)->Find(*model::Address::Parse("10.1.0.99")).value(); };
    auto hop = find();
    EXPECT_TRUE(hop && !hop->mac && !hop->has_entry) << "never asked for";
    if (hop) (*neighbours)->Probe(*hop);
    hop = find();
    EXPECT_TRUE(hop && !hop->mac && hop->has_entry) << "asked for, or nobody answered";
    return {};
  });
  EXPECT_TRUE(done) << done.error().message;
}

TEST_F(NeighboursTest, ALinkWithoutCarrierIsDown) {
  const auto done = lab::Inside(kNetns, []() -> Result<void> {
    auto neighbours = Neighbours::Open();
    if (!neighbours) return tl::make_unexpected(neighbours.error());
    const model::Address unit = *model::Address::Parse("10.1.0.2");
    const auto find = [&] { return (*neighbours)->Find(unit).value(); };
    const auto becomes = [&](bool up) {
      for (auto hop = find(); hop; hop = find())
        if (hop->link_up == up) return true;
      return false;
    };
    EXPECT_TRUE(becomes(true));
    Far("link set far down\n");
    EXPECT_TRUE(becomes(false));
    return {};
  });
  EXPECT_TRUE(done) << done.error().message;
}

}  // namespace
}  // namespace spillway::switching

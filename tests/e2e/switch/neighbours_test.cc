// SPDX-License-Identifier: Apache-2.0
// What the switch asks of the kernel's neighbour table, in a namespace of its own.
#include "switch/neighbours.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "lab/testbed/netns.h"
#include "lab/testbed/process.h"

namespace spillway::switching {
namespace {

constexpr const char* kNetns = "spw-e2e-neighbours";

class NeighboursTest : public testing::Test {
 protected:
  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "needs root";
    lab::DeleteNetns(kNetns);
    ASSERT_TRUE(lab::AddNetns(kNetns));
    ASSERT_TRUE(lab::Run({"ip", "-n", kNetns, "-batch", "-"},
                         "link add near type veth peer name far\nlink set far up\nlink set near up\n"
                         "addr add 10.1.0.1/24 dev near\n"
                         "neigh add 10.1.0.2 lladdr 02:00:00:00:00:02 dev near nud permanent\n"));
  }
  void TearDown() override { lab::DeleteNetns(kNetns); }
};

TEST_F(NeighboursTest, APermanentEntrySurvivesBeingAskedAbout) {
  const auto done = lab::Inside(kNetns, []() -> Result<void> {
    auto neighbours = Neighbours::Open();
    if (!neighbours) return tl::make_unexpected(neighbours.error());
    const model::Address unit = *model::Address::Parse("10.1.0.2");
    for (int i = 0; i < 2; i++) {
      const auto hop = (*neighbours)->Find(unit);
      EXPECT_TRUE(hop && hop->mac == (Mac{2, 0, 0, 0, 0, 2}) && hop->is_fixed) << "before question " << i + 1;
      if (hop) (*neighbours)->Probe(*hop);
    }
    return {};
  });
  EXPECT_TRUE(done) << done.error().message;
}

}  // namespace
}  // namespace spillway::switching

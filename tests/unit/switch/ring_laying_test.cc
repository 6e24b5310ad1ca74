// SPDX-License-Identifier: Apache-2.0
// How each policy's ring is laid.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <vector>

#include "core/ring.h"
#include "plan_bed.h"
#include "switch/plan.h"

namespace spillway::switching {
namespace {

std::map<uint16_t, double> Shares(const std::vector<uint16_t>& ring) {
  std::map<uint16_t, double> shares;
  for (uint16_t id : ring) shares[id] += 1.0 / static_cast<double>(ring.size());
  return shares;
}

// Server s0: cpu 6, nic 1 (weight 7); s1: cpu 6 alone. Ids: s0 -> 0, 1; s1 -> 8.
class LayRingTest : public testing::TestWithParam<spw_server_policy> {
 protected:
  std::map<uint16_t, double> Lay(spw_unit_policy unit_policy, spw_unit_status nic = SPW_UNIT_UP) {
    model::Config config = MakeConfig(1);
    config.pools[0].servers.push_back(MakeServer("s1", 1, {"cpu"}));
    config.services[0].server_policy = GetParam();
    config.services[0].unit_policy = unit_policy;
    Ledger ledger;
    ledger.status["p/s0/nic"] = nic;
    auto plan = MakePlan(config, ledger, kCapacity);
    auto ring = LayRing(config.services[0], plan->units, 4099);
    EXPECT_EQ(std::count(ring.begin(), ring.end(), SPW_NO_UNIT), 0);
    return Shares(ring);
  }
  // Share of s0: by capacity 7/13, equal under ecmp.
  double S0(double weight = 7) const { return GetParam() == SPW_SERVER_ECMP ? 0.5 : weight / (weight + 6); }
};

constexpr double kOneSlotOrTwo = 0.001;

TEST_P(LayRingTest, P4miteNamesEachServersFirstUnitWithTheServersWholeWeight) {
  auto shares = Lay(SPW_UNIT_P4MITE);
  EXPECT_NEAR(shares[0], S0(), kOneSlotOrTwo);
  EXPECT_EQ(shares.count(1), 0u);
  EXPECT_NEAR(shares[8], 1 - S0(), kOneSlotOrTwo);
}

TEST_P(LayRingTest, HostOnlyCountsAndNamesHostsAlone) {
  auto shares = Lay(SPW_UNIT_HOST_ONLY);
  EXPECT_NEAR(shares[0], 0.5, kOneSlotOrTwo) << "blind to the accelerator, also in the server's weight";
  EXPECT_EQ(shares.count(1), 0u);
}

TEST_P(LayRingTest, WrrAndLeastLoadedNameUnitsByCapacity) {
  for (auto policy : {SPW_UNIT_WRR, SPW_UNIT_LEAST_LOADED}) {
    auto shares = Lay(policy);
    EXPECT_NEAR(shares[0], S0() * 6 / 7, kOneSlotOrTwo);
    EXPECT_NEAR(shares[1], S0() / 7, kOneSlotOrTwo);
    EXPECT_NEAR(shares[8], 1 - S0(), kOneSlotOrTwo);
  }
}

TEST_P(LayRingTest, UnitEcmpSplitsAServerEqually) {
  auto shares = Lay(SPW_UNIT_ECMP);
  EXPECT_NEAR(shares[0], S0() / 2, kOneSlotOrTwo);
  EXPECT_NEAR(shares[1], S0() / 2, kOneSlotOrTwo);
}

TEST_P(LayRingTest, UnitsThatAreNotUpAreNotNamed) {
  for (auto status : {SPW_UNIT_DRAINING, SPW_UNIT_DOWN}) {
    auto shares = Lay(SPW_UNIT_WRR, status);
    EXPECT_EQ(shares.count(1), 0u);
    EXPECT_NEAR(shares[0], 0.5, kOneSlotOrTwo);
  }
}

INSTANTIATE_TEST_SUITE_P(ServerPolicies, LayRingTest,
                         testing::Values(SPW_SERVER_MAGLEV, SPW_SERVER_ECMP, SPW_SERVER_WCMP,
                                         SPW_SERVER_P2C));

TEST(LayRing, NoUnitUpIsAnEmptyRing) {
  model::Config config = MakeConfig(1);
  Ledger ledger;
  ledger.status = {{"p/s0/cpu", SPW_UNIT_DOWN}, {"p/s0/nic", SPW_UNIT_DRAINING}};
  auto plan = MakePlan(config, ledger, kCapacity);
  EXPECT_TRUE(LayRing(config.services[0], plan->units, 4099).empty());
}

TEST(LayRing, DrainingOneServerMovesLittleMoreThanItsShare) {
  model::Config config = MakeConfig(20);
  Ledger ledger;
  auto before = MakePlan(config, ledger, kCapacity)->rings[0].next;
  ledger.status["p/s5/cpu"] = ledger.status["p/s5/nic"] = SPW_UNIT_DRAINING;
  auto after = MakePlan(config, ledger, kCapacity)->rings[0].next;
  double moved = 0;
  for (size_t i = 0; i < before.size(); i++) moved += before[i] != after[i];
  EXPECT_LT(moved / static_cast<double>(before.size()), 0.05 + 0.03);
}

}  // namespace
}  // namespace spillway::switching

// SPDX-License-Identifier: Apache-2.0
#include "bench/dispatch/energy.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>

namespace spillway::bench {
namespace {

TEST(Energy, FiveCoresOfSixtyFourAreTheirShareOfTheHostsWatts) {
  // 100 million events a second by five cores: 0.05 CPU seconds per million.
  const EnqueueEnergy energy = EnergyOfEnqueueing({}, 0.05, 0.05, 100);
  EXPECT_NEAR(energy.host_cores, 5, 1e-9);
  EXPECT_NEAR(energy.host_watts, 62.5, 1e-9);
  EXPECT_NEAR(energy.nic_share, 5.0 / 64 / 0.27, 1e-9);
  EXPECT_NEAR(energy.nic_watts, 150 * 5.0 / 64 / 0.27, 1e-9);
  EXPECT_NEAR(energy.saving_pct, 100 * (62.5 - energy.nic_watts) / 800, 1e-9);
  EXPECT_NEAR(energy.saving_idle_pct, 100 * 5.0 / 64, 1e-9);
}

TEST(Energy, TheShareForTenPercentSavesTenPercent) {
  const PowerBaseline power;
  const double share = EnergyOfEnqueueing(power, 0.05, 0.05, 100).share_for_10_pct;
  const double cpu_s = share * power.host_cores / 100;
  EXPECT_NEAR(EnergyOfEnqueueing(power, cpu_s, cpu_s, 100).saving_pct, 10, 1e-9);
}

TEST(Energy, ANicThatIsNoBetterPerWattNeverSavesIt) {
  PowerBaseline power;
  power.nic_throughput = 0.1;
  const EnqueueEnergy energy = EnergyOfEnqueueing(power, 0.05, 0.05, 100);
  EXPECT_LT(energy.saving_pct, 0);
  EXPECT_EQ(energy.share_for_10_pct, 0);
}

TEST(Energy, JoulesAreReadWhereTheMachineTellsThem) {
  EXPECT_EQ(PackageEnergy("/nowhere/energy_uj").Joules(), std::nullopt);
  const std::string file = ::testing::TempDir() + "energy_uj";
  std::ofstream(file) << "2500000\n";
  EXPECT_EQ(PackageEnergy(file).Joules(), 2.5);
  std::remove(file.c_str());
}

}  // namespace
}  // namespace spillway::bench

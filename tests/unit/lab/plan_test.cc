// SPDX-License-Identifier: Apache-2.0
#include "lab/testbed/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace spillway::lab {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

TestbedSpec TwoUnits(spw_mode mode) {
  TestbedSpec spec;
  spec.name = "t";
  ServiceSpec service;
  service.name = "dns";
  service.ports = {{model::Protocol::kUdp, 53}};
  service.mode = mode;
  spec.services = {service};
  UnitSpec cpu, nic;
  cpu.name = "cpu";
  cpu.runs = nic.runs = Workload::kNsd;
  nic.name = "nic";
  spec.servers = {{"s1", {cpu, nic}}};
  return spec;
}

TEST(Plan, EachUnitHasItsNamespaceLinkAndAddress) {
  const Plan plan = MakePlan(TwoUnits(SPW_MODE_NAT), {"/f", "/p"});
  ASSERT_EQ(plan.units.size(), 2u);
  EXPECT_EQ(plan.units[1].netns, "spw-t-s1-nic");
  EXPECT_EQ(plan.units[1].address.ToString(), "10.77.2.2");
  EXPECT_THAT(plan.config.data_plane.interfaces, ElementsAre("client", "s1-cpu", "s1-nic"));
}

TEST(Plan, ServersListenOnTheVipOnlyWhereTheyAnswerForIt) {
  EXPECT_THAT(MakePlan(TwoUnits(SPW_MODE_DSR_L2), {"/f", "/p"}).files.at("/f/s1-cpu.conf"),
              HasSubstr("ip-address: 10.77.255.1"));
  EXPECT_THAT(MakePlan(TwoUnits(SPW_MODE_NAT), {"/f", "/p"}).files.at("/f/s1-cpu.conf"),
              Not(HasSubstr("10.77.255.1")));
}

TEST(Plan, Family6GivesEveryAddressOfTheServiceInIPv6) {
  TestbedSpec spec = TwoUnits(SPW_MODE_NAT);
  spec.family = 6;
  const Plan plan = MakePlan(spec, {"/f", "/p"});
  EXPECT_EQ(plan.config.services[0].vip.family, 6);
  EXPECT_EQ(plan.units[0].address.family, 6);
  EXPECT_EQ(plan.config.data_plane.report->address.family, 6);
}

}  // namespace
}  // namespace spillway::lab

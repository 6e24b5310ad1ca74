// SPDX-License-Identifier: Apache-2.0
#include "lab/testbed/plan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
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

TEST(Plan, AServicesChecksAreInThePoolFile) {
  TestbedSpec spec = TwoUnits(SPW_MODE_NAT);
  EXPECT_THAT(MakePlan(spec, {"/f", "/p"}).files.at("/f/pool.yaml"), Not(HasSubstr("health")));
  spec.services[0].health.emplace();
  spec.services[0].health->kind = model::CheckKind::kDns;
  spec.services[0].health->port = 53;
  spec.services[0].health->query = "h1.example.org";
  EXPECT_THAT(MakePlan(spec, {"/f", "/p"}).files.at("/f/pool.yaml"), HasSubstr("query: h1.example.org"));
}

TEST(Plan, Family6GivesEveryAddressOfTheServiceInIPv6) {
  TestbedSpec spec = TwoUnits(SPW_MODE_NAT);
  spec.family = 6;
  const Plan plan = MakePlan(spec, {"/f", "/p"});
  EXPECT_EQ(plan.config.services[0].vip.family, 6);
  EXPECT_EQ(plan.units[0].address.family, 6);
  EXPECT_EQ(plan.config.data_plane.report->address.family, 6);
}

TEST(Plan, ANeighbourSharesTheUnitsControlGroup) {
  TestbedSpec spec = TwoUnits(SPW_MODE_NAT);
  UnitSpec& cpu = spec.servers[0].units[0];
  cpu.quota = CpuQuota{Micros(1000), Micros(5000)};
  cpu.neighbour = Neighbour{Micros(5'000'000), Micros(1'000'000)};
  const Plan plan = MakePlan(spec, {"/f", "/p"});
  ASSERT_TRUE(plan.units[0].neighbour);
  EXPECT_EQ(plan.units[0].neighbour->group, "s1-cpu");
  EXPECT_EQ(plan.units[0].neighbour->quota, cpu.quota);
  EXPECT_FALSE(plan.units[1].neighbour);
}

TEST(Plan, NginxWithTlsTakesACertificate) {
  TestbedSpec spec = TwoUnits(SPW_MODE_NAT);
  spec.services[0].ports = {{model::Protocol::kTcp, 443}};
  for (UnitSpec& unit : spec.servers[0].units) unit.runs = Workload::kNginx;
  EXPECT_FALSE(MakePlan(spec, {"/f", "/p"}).certificate);
  spec.servers[0].units[0].nginx.tls = true;
  const Plan plan = MakePlan(spec, {"/f", "/p"});
  EXPECT_TRUE(plan.certificate);
  EXPECT_THAT(plan.files.at("/f/s1-cpu.conf"), HasSubstr("10.77.1.2:443 ssl;"));
  EXPECT_THAT(plan.files.at("/f/s1-nic.conf"), HasSubstr("10.77.2.2:443;"));
}

TEST(Plan, ABalancerOnTheNicSharesItsQuotaAndHearsTheServersAgents) {
  TestbedSpec spec = TwoUnits(SPW_MODE_NAT);
  spec.servers[0].units[1].kind = SPW_KIND_SMARTNIC;
  spec.servers[0].units[1].quota = CpuQuota{Micros(1000), Micros(10000)};
  spec.servers.push_back(spec.servers[0]);
  spec.servers[1].name = "s2";
  EXPECT_THAT(MakePlan(spec, {"/f", "/p"}).nic_balancers, testing::IsEmpty());
  spec.nic_balancers = true;
  const Plan plan = MakePlan(spec, {"/f", "/p"});
  ASSERT_EQ(plan.nic_balancers.size(), 2u);
  const NicBalancer& second = plan.nic_balancers[1];
  EXPECT_EQ(second.process.netns, "spw-t-s2-nic");
  EXPECT_EQ(second.process.group, "s2-nic");
  EXPECT_EQ(second.process.quota, spec.servers[1].units[1].quota);
  EXPECT_EQ(second.link, "s2-nic");
  EXPECT_EQ(second.front.ToString(), "10.77.4.3");
  EXPECT_THAT(plan.files.at("/f/s1-cpu.agent.yaml"),
              HasSubstr("switches: [\"10.77.0.1:9870\", \"10.77.2.2:9870\"]"));
  EXPECT_THAT(plan.files.at("/f/s2-nic.agent.yaml"),
              HasSubstr("switches: [\"10.77.0.1:9870\", \"10.77.4.2:9870\"]"));
}

TEST(Plan, TheSwitchHasTheFrontAsALastUnitThatIsUpOnlyWhileTheNicBalances) {
  TestbedSpec spec = TwoUnits(SPW_MODE_NAT);
  spec.servers[0].units[1].kind = SPW_KIND_SMARTNIC;
  spec.nic_balancers = true;
  const Plan plan = MakePlan(spec, {"/f", "/p"});
  const auto& units = plan.config.pools[0].servers[0].units;
  ASSERT_EQ(units.size(), 3u);
  EXPECT_EQ(units[2].name, kFrontUnit);
  EXPECT_EQ(units[2].address.ToString(), "10.77.2.3");
  EXPECT_FALSE(units[0].drain || units[1].drain);
  EXPECT_TRUE(units[2].drain);
  const std::string nic = plan.files.at(plan.nic_pool_file);
  EXPECT_THAT(nic, HasSubstr("unit_policy: wrr"));
  EXPECT_EQ(fmt::format("{}", nic.find("drain: true") < nic.find(kFrontUnit)), "true");
  EXPECT_EQ(nic.find("drain: true", nic.find(kFrontUnit)), std::string::npos);
}

// The command line of the first unit's server.
std::vector<std::string> Command(const UnitSpec& unit) {
  TestbedSpec spec = TwoUnits(SPW_MODE_DSR_L2);
  spec.servers[0].units[0] = unit;
  return MakePlan(spec, {"/f", "/p"}).units[0].server_process->argv;
}

TEST(Plan, UnitsThatComputeAreToldWhat) {
  UnitSpec unit;
  unit.name = "cpu";
  unit.runs = Workload::kVgg16;
  unit.vgg16 = {4, 64, "bf16"};
  EXPECT_THAT(Command(unit), ElementsAre("/p/spillway-compute", "--name", "s1-cpu", "--workers", "4",
                                         "--queue", "80", "--listen", "10.77.1.2:53", "--listen",
                                         "10.77.255.1:53", "vgg16", "--size", "64", "--precision", "bf16"));
  unit.runs = Workload::kKnn;
  unit.knn = {1, 500, 8, 3};
  EXPECT_THAT(fmt::format("{}", fmt::join(Command(unit), " ")),
              HasSubstr("knn --vectors 500 --dimensions 8 --neighbours 3"));
  unit.runs = Workload::kSynthetic;
  unit.synthetic = {2, 0.5};
  EXPECT_THAT(fmt::format("{}", fmt::join(Command(unit), " ")), HasSubstr("--workers 2"));
  EXPECT_THAT(fmt::format("{}", fmt::join(Command(unit), " ")), HasSubstr("synthetic --gflop 0.5"));
}

TEST(Plan, UnitsThatComputeHaveTimeToGenerateTheirNumbers) {
  TestbedSpec spec = TwoUnits(SPW_MODE_DSR_L2);
  spec.servers[0].units[0].runs = Workload::kVgg16;
  const Plan plan = MakePlan(spec, {"/f", "/p"});
  EXPECT_GT(plan.units[0].server_process->ready.patience, plan.units[1].server_process->ready.patience);
}

}  // namespace
}  // namespace spillway::lab

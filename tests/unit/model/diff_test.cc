// SPDX-License-Identifier: Apache-2.0
#include "model/diff.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "pool_text.h"

namespace spillway::model {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class DiffOf : public testing::Test {
 protected:
  void SetUp() override {
    auto config = ParseConfig(kText, "pool.yaml");
    ASSERT_TRUE(config);
    from_ = to_ = *config;
  }
  std::vector<std::string> Changes() const { return Diff(from_, to_); }
  Service& dns() { return to_.services[0]; }
  Pool& rack1() { return to_.pools[0]; }
  Server& s1() { return rack1().servers[0]; }

  Config from_, to_;
};

TEST_F(DiffOf, EqualConfigsIsEmpty) { EXPECT_THAT(Changes(), IsEmpty()); }

TEST_F(DiffOf, ServicesNamesEachKey) {
  dns().unit_policy = SPW_UNIT_WRR;
  dns().ports = {{Protocol::kUdp, 53}, {Protocol::kUdp, 54}};
  dns().idle_s = 5;
  EXPECT_THAT(Changes(),
              ElementsAre("service dns: port tcp/53 removed", "service dns: port udp/54 added",
                          "service dns: unit_policy headroom -> wrr", "service dns: idle default -> 5s"));
}

TEST_F(DiffOf, ServicesAddedAndRemoved) {
  to_.services[0].name = "dns2";
  EXPECT_THAT(Changes(), ElementsAre("service dns removed (203.0.113.53, 2 ports, pool rack1)",
                                     "service dns2 added (203.0.113.53, 2 ports, pool rack1)"));
}

TEST_F(DiffOf, ServersAddedAndRemoved) {
  Server s3 = s1();
  s3.name = "s3";
  rack1().servers.push_back(s3);
  EXPECT_THAT(Changes(), ElementsAre("pool rack1: server s3 added (2 units)"));
  EXPECT_THAT(Diff(to_, from_), ElementsAre("pool rack1: server s3 removed (2 units)"));
}

TEST_F(DiffOf, UnitsNamesEachKey) {
  s1().units[1].capacity = 1.5;
  s1().units[1].drain = true;
  s1().units[0].address = *Address::Parse("10.0.1.9");
  EXPECT_THAT(Changes(), ElementsAre("pool rack1: server s1: unit cpu: address 10.0.1.1 -> 10.0.1.9",
                                     "pool rack1: server s1: unit nic: capacity 1 -> 1.5",
                                     "pool rack1: server s1: unit nic: drain false -> true"));
  to_ = from_;
  s1().units.pop_back();
  EXPECT_THAT(Diff(to_, from_),
              ElementsAre("pool rack1: server s1: unit nic added (smartnic at 10.0.1.2, capacity 1)"));
}

TEST_F(DiffOf, UnitsInAnotherOrderSaysSo) {
  std::swap(s1().units[0], s1().units[1]);
  EXPECT_THAT(Changes(), ElementsAre("pool rack1: server s1: units reordered: nic, cpu"));
}

TEST_F(DiffOf, ServersNeverShowsKeys) {
  s1().key = Key{0xab, 0xcd};
  s1().key_file = "/etc/spillway/s1.key";
  s1().code = 3;
  EXPECT_THAT(Changes(), ElementsAre("pool rack1: server s1: key_file none -> /etc/spillway/s1.key",
                                     "pool rack1: server s1: code none -> 3"));
  from_ = to_;
  s1().key = Key{0xef};
  EXPECT_THAT(Changes(), ElementsAre("pool rack1: server s1: key changed")) << "in the same file";
}

TEST_F(DiffOf, PoolsAndTheirRings) {
  rack1().ring_slots = 65537;
  Pool rack2 = from_.pools[0];
  rack2.name = "rack2";
  to_.pools.push_back(rack2);
  EXPECT_THAT(Changes(),
              ElementsAre("pool rack2 added (1 server, 2 units)", "pool rack1: ring_slots chosen -> 65537"));
}

TEST_F(DiffOf, TheSwitch) {
  to_.data_plane.interfaces = {"eth1"};
  to_.data_plane.attach = AttachMode::kNative;
  to_.data_plane.report->silent_after_ms = 500;
  to_.data_plane.flow_table_entries = 1024;
  EXPECT_THAT(Changes(),
              ElementsAre("switch: interface eth0 removed", "switch: interface eth1 added",
                          "switch: attach auto -> native", "switch: report.silent_after 3000ms -> 500ms",
                          "switch: flow_table.entries 16777216 -> 1024"));
  to_ = from_;
  to_.data_plane.report.reset();
  EXPECT_THAT(Changes(), ElementsAre("switch: report 192.0.2.1 port 9870 -> none"));
}

}  // namespace
}  // namespace spillway::model

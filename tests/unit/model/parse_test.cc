// SPDX-License-Identifier: Apache-2.0
// What the pool file's keys mean.
#include "model/parse.h"
#include "model/diff.h"
#include "model/yaml.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "pool_text.h"

namespace spillway::model {
namespace {

TEST(PoolFile, DefaultsAreTheDocumentedOnes) {
  auto config = ParseConfig(kText, "pool.yaml");
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->data_plane.interfaces, std::vector<std::string>{"eth0"});
  EXPECT_EQ(config->data_plane.attach, AttachMode::kAuto);
  EXPECT_EQ(config->data_plane.flow_table_entries, 16777216u);
  ASSERT_TRUE(config->data_plane.report);
  EXPECT_EQ(config->data_plane.report->port, 9870);
  EXPECT_EQ(config->data_plane.report->silent_after_ms, 3000u);
  ASSERT_EQ(config->services.size(), 1u);
  const Service& dns = config->services[0];
  EXPECT_EQ(dns.mode, SPW_MODE_NAT);
  EXPECT_EQ(dns.affinity, SPW_AFFINITY_CONNECTION);
  EXPECT_EQ(dns.server_policy, SPW_SERVER_MAGLEV);
  EXPECT_EQ(dns.unit_policy, SPW_UNIT_HEADROOM);
  EXPECT_EQ(dns.idle_s, 0u);
  const Pool* pool = config->FindPool("rack1");
  ASSERT_NE(pool, nullptr);
  EXPECT_EQ(config->FindPool("rack2"), nullptr);
  EXPECT_EQ(pool->ring_slots, 0u);
  EXPECT_FALSE(pool->servers[0].key);
  EXPECT_FALSE(pool->servers[0].code);
  EXPECT_FALSE(pool->servers[0].units[0].drain);
}

TEST(PoolFile, EveryKeyIsRead) {
  std::string folder = testing::TempDir() + "/spillway_parse_test";
  std::filesystem::create_directory(folder);
  std::ofstream(folder + "/s1.key") << "ffeeddccbbaa99887766554433221100\n";
  std::ofstream(folder + "/pool.yaml") << R"(
switch:
  interfaces: [eth0, eth1.7]
  attach: generic
  report: {address: 192.0.2.1, port: 9000, silent_after: 300ms}
  flow_table: {entries: 1024}
  seed_file: keys/none.seed
services:
  - name: web
    vip: 203.0.113.80
    ports: [tcp/443]
    pool: rack1
    mode: dsr-l2
    affinity: none
    server_policy: p2c
    unit_policy: least-loaded
    idle: 15m
pools:
  rack1:
    ring_slots: 65537
    servers:
      - name: s1
        code: 4095
        key_file: s1.key
        units:
          - {name: 1, kind: gpu, address: 10.0.1.1, capacity: 2.5, drain: true}
)";
  auto config = LoadConfig(folder + "/pool.yaml");
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->data_plane.interfaces, (std::vector<std::string>{"eth0", "eth1.7"}));
  EXPECT_EQ(config->data_plane.attach, AttachMode::kGeneric);
  EXPECT_EQ(config->data_plane.report->port, 9000);
  EXPECT_EQ(config->data_plane.report->silent_after_ms, 300u);
  EXPECT_EQ(config->data_plane.flow_table_entries, 1024u);
  EXPECT_TRUE(config->data_plane.seed_file.ends_with("/keys/none.seed")) << config->data_plane.seed_file;
  EXPECT_TRUE(config->data_plane.seed_file.starts_with("/"));
  const Service& web = config->services[0];
  EXPECT_EQ(web.ports, (std::vector<ServicePort>{{Protocol::kTcp, 443}}));
  EXPECT_EQ(web.mode, SPW_MODE_DSR_L2);
  EXPECT_EQ(web.affinity, SPW_AFFINITY_NONE);
  EXPECT_EQ(web.server_policy, SPW_SERVER_P2C);
  EXPECT_EQ(web.unit_policy, SPW_UNIT_LEAST_LOADED);
  EXPECT_EQ(web.idle_s, 900u);
  const Server& server = config->pools[0].servers[0];
  EXPECT_EQ(config->pools[0].ring_slots, 65537u);
  EXPECT_EQ(server.code, 4095u);
  EXPECT_TRUE(std::filesystem::path(server.key_file).is_absolute());
  ASSERT_TRUE(server.key) << "relative to the pool file";
  EXPECT_EQ((*server.key)[0], 0xff);
  EXPECT_EQ(server.units[0], (Unit{.name = "1",
                                   .kind = SPW_KIND_GPU,
                                   .address = *Address::Parse("10.0.1.1"),
                                   .capacity = 2.5,
                                   .drain = true}));
  std::filesystem::remove_all(folder);
}

TEST(PoolFile, UnitsKeepTheirOrderOfPriority) {
  auto config = ParseConfig(kText, "pool.yaml");
  ASSERT_TRUE(config);
  EXPECT_EQ(config->pools[0].servers[0].units[0].name, "cpu");
  EXPECT_EQ(config->pools[0].servers[0].units[1].name, "nic");
}

TEST(PoolFile, DocumentsAddUp) {
  auto config =
      ParseConfig(kSwitchText + "---\n" + kServiceText + "---\n" + kPoolText +
                      "---\nservices:\n  - {name: ntp, vip: 203.0.113.54, ports: [udp/123], pool: rack1}\n",
                  "pool.yaml");
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->services.size(), 2u);
}

TEST(PoolFile, AnchorsStandForWhatTheyName) {
  auto config = ParseConfig(With(With(kText, "203.0.113.53", "&vip 203.0.113.53"), "pools:\n",
                                 "  - {name: web, vip: *vip, ports: [tcp/80], pool: rack1}\npools:\n"),
                            "pool.yaml");
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->services[1].vip, config->services[0].vip);
}

TEST(PoolFile, NoServicesIsSaidOutright) {
  EXPECT_EQ(Problem(kSwitchText + "services: []\n"), "accepted");
  EXPECT_EQ(Problem(kSwitchText),
            "pool.yaml:1: services: expected a list of services (none: []), got nothing")
      << "a file cut short must not remove every service";
}

TEST(PoolFile, TcpWithoutUdpMayHaveAffinityNone) {
  EXPECT_EQ(Problem(With(kText, "ports: [udp/53, tcp/53]", "ports: [tcp/53], affinity: none")), "accepted");
}

TEST(PoolFile, DsrServicesMayShareUnitsAndPorts) {
  EXPECT_EQ(Problem(With(With(kText, "pool: rack1}", "pool: rack1, mode: dsr-l2}"), "pools:\n",
                         "  - {name: dns2, vip: 203.0.113.54, ports: [udp/53], pool: rack1, mode: dsr-l2}\n"
                         "  - {name: dns3, vip: 203.0.113.55, ports: [udp/53], pool: rack1}\npools:\n")),
            "accepted")
      << "only one of them is nat";
}

TEST(PoolFile, PoliciesWithoutReportsNeedNoReportAddress) {
  for (const char* policy : {"wrr", "ecmp", "host-only"})
    EXPECT_EQ(Problem(With(With(kText, "  report: {address: 192.0.2.1}\n", ""), "pool: rack1}",
                           std::string("pool: rack1, unit_policy: ") + policy + "}")),
              "accepted");
}

TEST(PoolFile, HoldsFourThousandServersOfEightUnits) {
  std::string text = kSwitchText + kServiceText + "pools:\n  rack1:\n    ring_slots: 65537\n    servers:\n";
  int unit = 0;
  for (int server = 0; server < SPW_MAX_SERVERS; server++) {
    text += "      - name: s" + std::to_string(server) + "\n        units:\n";
    for (int u = 0; u < SPW_UNITS_PER_SERVER; u++, unit++)
      text += "          - {name: u" + std::to_string(u) + ", kind: cpu, address: 10.1." +
              std::to_string(unit / 256) + "." + std::to_string(unit % 256) + "}\n";
  }
  auto config = ParseConfig(text, "pool.yaml");
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->pools[0].servers.size(), 4096u);
  EXPECT_EQ(Problem(text + "      - {name: more, units: [{name: u, kind: cpu, address: 10.2.0.1}]}\n"),
            "pool.yaml:40970: pools.rack1.servers[more]: expected at most 4096 servers in all, got more");
}

TEST(Parse, TheExtenderHasAFileOfItsOwn) {
  EXPECT_EQ(Problem("switch: {interfaces: [eth0]}\nservices: []\nextender: {listen: '127.0.0.1:8888'}\n"),
            "pool.yaml:3: extender: expected a pool file, got spillway-kubernetes' file: spillway-kubernetes "
            "-c FILE --check");
}

}  // namespace
}  // namespace spillway::model

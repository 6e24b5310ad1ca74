// SPDX-License-Identifier: Apache-2.0
#include "lab/balancer/server_balancer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "packet_builder.h"

namespace spillway::balancer {
namespace {

using switching::Bytes;
using switching::Eth;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr Mac kBalancerMac{2, 0, 0, 0, 0, 9};
constexpr uint64_t kNow = 5'000'000'000;
constexpr const char* kFront = "10.0.1.3";
const model::Key kKey{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};

model::Address Addr(const char* text) { return *model::Address::Parse(text); }

// Server s1 of code 7: host CPU at 10.0.1.1, three times the NIC at 10.0.1.2, and the front.
model::Config Config(spw_unit_policy policy, spw_affinity affinity) {
  model::Config config;
  config.data_plane.report.emplace();
  config.data_plane.report->address = Addr("10.0.0.1");
  model::Service service;
  service.name = "dns";
  service.vip = Addr("203.0.113.1");
  service.ports = {{model::Protocol::kTcp, 53}, {model::Protocol::kUdp, 53}};
  service.pool = "p";
  service.affinity = affinity;
  service.unit_policy = policy;
  config.services = {service};
  model::Server other{"s0", "", {}, 3, {{"cpu", SPW_KIND_CPU, Addr("10.0.0.9"), 1, false}}};
  model::Server server{"s1",
                       "k",
                       kKey,
                       7,
                       {{"cpu", SPW_KIND_CPU, Addr("10.0.1.1"), 3, false},
                        {"nic", SPW_KIND_SMARTNIC, Addr("10.0.1.2"), 1, false},
                        {"front", SPW_KIND_OTHER, Addr(kFront), 1, true}}};
  model::Pool pool;
  pool.name = "p";
  pool.servers = {other, server};
  config.pools = {pool};
  return config;
}

Result<ServerBalancer> Make(const model::Config& config, const std::string& service = "dns",
                            const std::string& server = "s1", const char* front = kFront) {
  spw_seed seed;
  std::memset(&seed, 0x5a, sizeof seed);
  return ServerBalancer::Make(config, {service, server, Addr(front), {}}, kBalancerMac, seed);
}

class ServerBalancerTest : public testing::Test {
 protected:
  void Use(spw_unit_policy policy, spw_affinity affinity = SPW_AFFINITY_NONE) {
    Use(Config(policy, affinity));
  }
  void Use(const model::Config& config) {
    auto made = Make(config);
    ASSERT_TRUE(made) << made.error().message;
    balancer_.emplace(std::move(*made));
  }
  // The address the request was sent on to; empty: it was not.
  std::string Request(uint16_t source_port, uint64_t now = kNow) {
    Bytes frame = Eth().Ip4("198.51.100.1", kFront).Udp(source_port, 53).Payload(12);
    if (!balancer_->Handle(frame, now)) return "";
    RequestPacket packet;
    EXPECT_EQ(Parse(frame, packet), Parsed::kRequest);
    return packet.destination.ToString();
  }
  spw_report_verdict Report(spw_report report, uint64_t now = kNow, const model::Key& key = kKey) {
    report.server = 7;
    report.boot_id = boot_id_;
    if (report.sequence == 0) report.sequence = ++sequence_;
    spw_report_wire wire{};
    const spw_siphash_key words = spw_siphash_key_of(key.data());
    spw_report_encode(&wire, &report, &words);
    return balancer_->Accept({reinterpret_cast<const uint8_t*>(&wire), sizeof wire}, now);
  }
  static spw_report Of(uint8_t unit, uint8_t flags = 0) {
    spw_report report{};
    report.unit = unit;
    report.flags = flags;
    return report;
  }
  const Counters& counters() const { return balancer_->counters(); }

  std::optional<ServerBalancer> balancer_;
  uint64_t boot_id_ = 1;
  uint32_t sequence_ = 0;
};

TEST_F(ServerBalancerTest, SharesAreByCapacityAndTheFrontHasNone) {
  Use(SPW_UNIT_WRR);
  for (uint16_t i = 0; i < 4000; i++) EXPECT_NE(Request(static_cast<uint16_t>(1000 + i)), "");
  EXPECT_EQ(counters().requests, 4000u);
  EXPECT_NEAR(static_cast<double>(counters().placed[0]), 3000, 20) << "the golden-ratio turns stay close";
  EXPECT_NEAR(static_cast<double>(counters().placed[1]), 1000, 20);
}

TEST_F(ServerBalancerTest, EachRequestIsDecidedAnewWithoutAffinityAndOnceAFlowWithIt) {
  Use(SPW_UNIT_WRR, SPW_AFFINITY_NONE);
  std::set<std::string> units;
  for (int i = 0; i < 20; i++) units.insert(Request(4000));
  EXPECT_THAT(units, ElementsAre("10.0.1.1", "10.0.1.2"));

  Use(SPW_UNIT_WRR, SPW_AFFINITY_CONNECTION);
  std::set<std::string> first;
  for (uint16_t port = 4000; port < 4020; port++) {
    const std::string unit = Request(port);
    first.insert(unit);
    for (int i = 0; i < 5; i++) EXPECT_EQ(Request(port), unit);
  }
  EXPECT_THAT(first, ElementsAre("10.0.1.1", "10.0.1.2")) << "else it was no choice";
  EXPECT_EQ(counters().flows_inserted, 20u);
}

TEST_F(ServerBalancerTest, ABusyUnitIsPassedOver) {
  Use(SPW_UNIT_P4MITE);
  EXPECT_EQ(Report(Of(0)), SPW_REPORT_OK);
  EXPECT_EQ(Report(Of(1)), SPW_REPORT_OK);
  EXPECT_EQ(Request(1), "10.0.1.1");
  EXPECT_EQ(Report(Of(0, SPW_REPORT_BUSY)), SPW_REPORT_OK);
  EXPECT_EQ(Request(2), "10.0.1.2");
  EXPECT_EQ(Report(Of(0)), SPW_REPORT_OK);
  EXPECT_EQ(Request(3), "10.0.1.1");
}

TEST_F(ServerBalancerTest, UnitsThatFellSilentGetTheirShareByCapacity) {
  Use(SPW_UNIT_P4MITE);
  (void)Report(Of(0, SPW_REPORT_BUSY));
  (void)Report(Of(1));
  EXPECT_EQ(Request(1), "10.0.1.2");
  std::set<std::string> units;
  for (uint16_t port = 1; port < 20; port++) units.insert(Request(port, kNow + 60'000'000'000));
  EXPECT_THAT(units, ElementsAre("10.0.1.1", "10.0.1.2"));
}

TEST_F(ServerBalancerTest, ReportsThatAreNotTheServersOwnChangeNothing) {
  Use(SPW_UNIT_P4MITE);
  (void)Report(Of(0));
  (void)Report(Of(1));
  const spw_report busy = Of(0, SPW_REPORT_BUSY);
  EXPECT_EQ(Report(busy, kNow, model::Key{}), SPW_REPORT_FORGED);
  spw_report old = busy;
  old.sequence = 1;
  EXPECT_EQ(Report(old), SPW_REPORT_STALE);
  EXPECT_EQ(Report(Of(2)), SPW_REPORT_UNKNOWN_UNIT) << "the front reports nothing";
  std::mt19937 random(1);
  for (size_t length = 0; length < 100; length++) {
    Bytes noise(length);
    for (uint8_t& byte : noise) byte = static_cast<uint8_t>(random());
    EXPECT_EQ(balancer_->Accept(noise, kNow), SPW_REPORT_MALFORMED);
  }
  EXPECT_EQ(Request(1), "10.0.1.1");
  EXPECT_EQ(counters().reports_accepted, 2u);
  EXPECT_EQ(counters().reports_refused, 103u);
}

TEST_F(ServerBalancerTest, ARestartedAgentIsHeard) {
  Use(SPW_UNIT_P4MITE);
  sequence_ = 1000;
  (void)Report(Of(0));
  (void)Report(Of(1));
  boot_id_ = 2;
  sequence_ = 0;
  EXPECT_EQ(Report(Of(0, SPW_REPORT_BUSY)), SPW_REPORT_OK);
  EXPECT_EQ(Request(1), "10.0.1.2");
}

TEST_F(ServerBalancerTest, ARestartedAgentsCountersBeginAnew) {
  Use(SPW_UNIT_HEADROOM);
  const auto learnt = [](uint8_t unit, uint64_t completed) {
    spw_report report = Of(unit);
    report.base_us = report.knee_us = 1000;
    report.slot_ns = 1'000'000;
    report.completed = static_cast<uint32_t>(completed);
    return report;
  };
  (void)Report(learnt(0, 1000));
  (void)Report(learnt(1, 1000));
  for (uint16_t port = 1; port <= 50; port++) EXPECT_NE(Request(port), "");
  ASSERT_GT(counters().placed[0], 10u);
  const uint64_t later = kNow + 1'000'000'000;
  EXPECT_EQ(Report(learnt(1, 1000 + counters().placed[1]), later), SPW_REPORT_OK);
  boot_id_ = 2;
  EXPECT_EQ(Report(learnt(0, 0), later), SPW_REPORT_OK);
  // Else the host CPU would be thought to hold all that it was given before.
  EXPECT_EQ(Request(60, later), "10.0.1.1");
}

TEST_F(ServerBalancerTest, WhatIsNotForTheServiceIsNotPassedOn) {
  Use(SPW_UNIT_WRR);
  for (Bytes frame : {Bytes(Eth().Ip4("198.51.100.1", kFront).Udp(1, 54).Payload(12)),
                      Bytes(Eth().Ip4("198.51.100.1", "10.0.1.1").Udp(1, 53).Payload(12)),
                      Bytes(Eth().Ip4("198.51.100.1", kFront).Tcp(1, 53))}) {
    const Bytes before = frame;
    EXPECT_FALSE(balancer_->Handle(frame, kNow));
    EXPECT_EQ(frame, before);
  }
  EXPECT_EQ(counters().foreign, 3u);
  EXPECT_EQ(counters().requests, 0u);
}

TEST_F(ServerBalancerTest, GarbageIsCountedAndSurvived) {
  Use(SPW_UNIT_WRR);
  std::mt19937 random(1);
  const Bytes whole = Eth().Ip4("198.51.100.1", kFront).Udp(1, 53).Payload(12);
  for (int i = 0; i < 20000; i++) {
    Bytes frame = whole;
    for (int k = 0; k < 3; k++) frame[random() % frame.size()] = static_cast<uint8_t>(random());
    frame.resize(random() % (frame.size() + 1));
    (void)balancer_->Handle(frame, kNow);
  }
  const Counters& c = counters();
  EXPECT_EQ(c.requests + c.foreign + c.fragments + c.malformed, 20000u);
  EXPECT_GT(c.malformed, 0u);
  EXPECT_EQ(Request(1).substr(0, 7), "10.0.1.");
}

TEST_F(ServerBalancerTest, ARequestThatNoUnitMayTakeIsCounted) {
  model::Config config = Config(SPW_UNIT_WRR, SPW_AFFINITY_NONE);
  for (model::Unit& unit : config.pools[0].servers[1].units) unit.drain = true;
  Use(config);
  EXPECT_EQ(Request(1), "");
  EXPECT_EQ(counters().no_unit, 1u);
}

TEST(ServerBalancer, APoolFileThatDoesNotFitIsRefused) {
  const model::Config config = Config(SPW_UNIT_WRR, SPW_AFFINITY_NONE);
  EXPECT_THAT(Make(config, "http").error().message, HasSubstr("no such service"));
  EXPECT_THAT(Make(config, "dns", "s9").error().message, HasSubstr("no such server"));
  EXPECT_THAT(Make(config, "dns", "s0", "10.0.0.9").error().message, HasSubstr("no unit besides the front"));
  EXPECT_THAT(Make(config, "dns", "s1", "10.0.1.1").error().message, HasSubstr("the last unit"));
  EXPECT_THAT(Make(config, "dns", "s1", "fd00::1").error().message, HasSubstr("family"));
  model::Config tcp = config;
  tcp.services[0].ports.pop_back();
  EXPECT_THAT(Make(tcp).error().message, HasSubstr("no UDP port"));
}

}  // namespace
}  // namespace spillway::balancer

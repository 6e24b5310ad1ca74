// SPDX-License-Identifier: Apache-2.0
// Load reports in the data plane: each verdict with its counter, and its effect on the unit's state.
#include <linux/bpf.h>

#include <cstring>
#include <random>

#include "packet_kinds.h"
#include "switch_program.h"

namespace spillway::switching {
namespace {

class ReportTest : public SwitchTest {
 protected:
  void SetUp() override {
    SwitchTest::SetUp();
    unit_ = Id("four", "s1", "nic");
    key_ = program_.ReadKey(spw_unit_server(unit_)).key;
    report_.server = static_cast<uint16_t>(spw_unit_server(unit_));
    report_.unit = static_cast<uint8_t>(spw_unit_index(unit_));
    report_.boot_id = 1'700'000'000'000'000;
    report_.sequence = 10;
    report_.level = 200;
    report_.flags = SPW_REPORT_BUSY;
    report_.queue = 77;
    report_.latency_us = 4321;
    report_.completed = 99;
    Counted();
  }

  Bytes Wire(const spw_report& report) const { return Wire(report, key_); }
  static Bytes Wire(const spw_report& report, const spw_siphash_key& key) {
    spw_report_wire wire;
    spw_report_encode(&wire, &report, &key);
    const auto* bytes = reinterpret_cast<const uint8_t*>(&wire);
    return Bytes(bytes, bytes + sizeof(wire));
  }
  spw_unit_load& Load() { return program_.servers[spw_unit_server(unit_)].load[spw_unit_index(unit_)]; }

  // Sends a payload that must be refused under `counter`, and change nothing.
  void ExpectRefused(const Bytes& payload, const char* counter) {
    ExpectRefusedPacket(ReportPacket(payload), counter);
  }
  void ExpectRefusedPacket(const Bytes& packet, const char* counter) {
    spw_server before = program_.servers[report_.server];
    spw_server_key keys = program_.ReadKey(report_.server);
    EXPECT_EQ(Run(packet).verdict, XDP_DROP);
    EXPECT_EQ(Counted(), (Counts{{counter, 1}}));
    EXPECT_EQ(std::memcmp(&before, &program_.servers[report_.server], sizeof(before)), 0);
    spw_server_key after = program_.ReadKey(report_.server);
    EXPECT_EQ(std::memcmp(&keys, &after, sizeof(keys)), 0);
  }
  void ExpectAccepted(const spw_report& report) {
    EXPECT_EQ(Run(ReportPacket(Wire(report))).verdict, XDP_DROP);
    EXPECT_EQ(Counted(), (Counts{{"reports_accepted", 1}}));
  }

  uint16_t unit_ = 0;
  spw_siphash_key key_{};
  spw_report report_{};
};

TEST_F(ReportTest, AnAuthenticReportBecomesTheUnitsState) {
  Load().assigned = 500;
  Load().report_beat = 0;
  spw_server before = program_.servers[report_.server];
  uint32_t earliest = NowBeat();
  ExpectAccepted(report_);
  EXPECT_EQ(Load().level, 200);
  EXPECT_EQ(Load().flags, SPW_REPORT_BUSY);
  EXPECT_EQ(Load().queue, 77);
  EXPECT_EQ(Load().assigned, 0u) << "counted anew from each report";
  EXPECT_EQ(Load().latency_us, 4321u);
  EXPECT_EQ(program_.servers[report_.server].counts[report_.unit].completed, 99u);
  EXPECT_GE(Load().report_beat, earliest);
  EXPECT_LE(Load().report_beat, NowBeat());
  spw_server_key keys = program_.ReadKey(report_.server);
  EXPECT_EQ(keys.seen[report_.unit].boot_id, report_.boot_id);
  EXPECT_EQ(keys.seen[report_.unit].sequence, 10u);
  // Nobody else's state moved.
  spw_server& server = program_.servers[report_.server];
  Load() = before.load[report_.unit];
  server.counts[report_.unit] = before.counts[report_.unit];
  server.share_step_ns = before.share_step_ns;  // the sum over all units
  EXPECT_EQ(std::memcmp(&before, &server, sizeof(before)), 0);
}

TEST_F(ReportTest, ABusyReportTurnsNewFlowsAway) {
  report_.unit = 0;
  for (const char* server : {"s1", "s2"}) {
    uint16_t cpu = Id("four", server, "cpu");
    report_.server = static_cast<uint16_t>(spw_unit_server(cpu));
    ASSERT_EQ(Run(ReportPacket(Wire(report_, program_.ReadKey(report_.server).key))).verdict, XDP_DROP);
  }
  EXPECT_EQ(spw_unit_index(Sent(Eth().Ip4("198.51.100.7", "203.0.113.10").Tcp(40000, 80).Syn())), 1u);
}

TEST_F(ReportTest, EveryFlippedBitIsRefused) {
  Bytes good = Wire(report_);
  for (size_t bit = 0; bit < good.size() * 8; bit++) {
    Bytes bad = good;
    bad[bit / 8] ^= static_cast<uint8_t>(1 << bit % 8);
    spw_server before = program_.servers[report_.server];
    ASSERT_EQ(Run(ReportPacket(bad)).verdict, XDP_DROP);
    Counts counts = Counted();
    ASSERT_EQ(counts.size(), 1u);
    std::string name = counts.begin()->first;
    if (bit / 8 < 4) {
      ASSERT_EQ(name, "reports_malformed") << bit;  // magic
    } else if (bit / 8 == 4) {
      ASSERT_EQ(name, "reports_other_version") << bit;
    } else if (bit / 8 >= 8) {
      ASSERT_EQ(name, "reports_forged") << bit;
    } else {
      ASSERT_TRUE(name == "reports_malformed" || name == "reports_unknown_unit" || name == "reports_forged")
          << bit;
    }
    ASSERT_EQ(std::memcmp(&before, &program_.servers[report_.server], sizeof(before)), 0);
  }
  ExpectAccepted(report_);
}

TEST_F(ReportTest, AnotherServersKeyIsForgery) {
  uint16_t other = static_cast<uint16_t>(spw_unit_server(Id("four", "s2", "nic")));
  ExpectRefused(Wire(report_, program_.ReadKey(other).key), "reports_forged");
}

TEST_F(ReportTest, AReplayIsStale) {
  ExpectAccepted(report_);
  ExpectRefused(Wire(report_), "reports_stale");
  report_.sequence = 9;
  ExpectRefused(Wire(report_), "reports_stale");
  report_.sequence = 11;
  ExpectAccepted(report_);
  report_.boot_id--;
  report_.sequence = 1000;
  ExpectRefused(Wire(report_), "reports_stale");
  report_.boot_id += 2;
  report_.sequence = 0;
  ExpectAccepted(report_);
}

TEST_F(ReportTest, OfOneBootAnOldSequenceIsNeverNewAgain) {
  report_.sequence = 3;
  ExpectAccepted(report_);
  const spw_report old = report_;
  report_.sequence = 0xfffffffe;
  ExpectAccepted(report_);
  ExpectRefused(Wire(old), "reports_stale");
  report_.boot_id++;
  report_.sequence = 1;
  ExpectAccepted(report_);
}

TEST_F(ReportTest, UnitsAreJudgedSeparately) {
  ExpectAccepted(report_);
  report_.unit = 0;
  report_.sequence = 1;
  ExpectAccepted(report_);
}

TEST_F(ReportTest, UnknownServersAndUnitsAreCounted) {
  report_.unit = 5;
  ExpectRefused(Wire(report_), "reports_unknown_unit");
  report_.unit = 0;
  report_.server = 4000;
  ExpectRefused(Wire(report_), "reports_unknown_unit");
}

TEST_F(ReportTest, WrongFormIsMalformed) {
  Bytes good = Wire(report_);
  for (size_t length = 0; length < 100; length++) {
    if (length == good.size()) continue;
    Bytes bad = good;
    bad.resize(length, 0);
    ExpectRefused(bad, "reports_malformed");
  }
  report_.server = 4096;
  ExpectRefused(Wire(report_), "reports_malformed");
  report_.server = 0;
  report_.unit = 8;
  ExpectRefused(Wire(report_), "reports_malformed");
}

TEST_F(ReportTest, AnotherVersionIsCountedByItself) {
  for (int version : {0, 1, 2, 3, 5, 255}) {
    Bytes other = Wire(report_);
    other[4] = static_cast<uint8_t>(version);
    ExpectRefused(other, "reports_other_version");
    other.resize(version < 4 ? 64 : 80);  // versions differ in length
    ExpectRefused(other, "reports_other_version");
    other.resize(8);
    ExpectRefused(other, "reports_other_version");
  }
}

TEST_F(ReportTest, AUdpLengthThatLiesIsMalformed) {
  Bytes packet = ReportPacket(Wire(report_));
  packet[14 + 20 + 5] = 8 + 71;
  ExpectRefusedPacket(packet, "reports_malformed");
  // Longer than the IP packet that holds it: no datagram at all, the host's stack refuses it.
  Bytes cut = ReportPacket(Bytes(30, 1));
  cut[14 + 20 + 5] = 8 + 72;
  EXPECT_EQ(Run(cut).verdict, XDP_PASS);
  EXPECT_EQ(Counted(), (Counts{{"packets_passed", 1}}));
}

TEST_F(ReportTest, ThePortOverTcpIsTheHosts) {
  Bytes packet = Eth().Ip4("10.0.1.1", "192.0.2.1").Tcp(50000, 9870).Syn();
  Outcome out = Run(packet);
  EXPECT_EQ(out.verdict, XDP_PASS);
  EXPECT_EQ(out.bytes, packet);
}

TEST_F(ReportTest, NoiseOnTheReportPortNeverChangesAState) {
  std::mt19937_64 random(70);
  spw_server before = program_.servers[report_.server];
  for (int i = 0; i < 20'000; i++) {
    Bytes payload(random() % 72);
    for (auto& b : payload) b = static_cast<uint8_t>(random());
    if (payload.size() >= 8) std::memcpy(payload.data(), Wire(report_).data(), random() % 2 ? 8 : 5);
    ASSERT_EQ(Run(ReportPacket(payload)).verdict, XDP_DROP);
  }
  EXPECT_EQ(std::memcmp(&before, &program_.servers[report_.server], sizeof(before)), 0);
  EXPECT_EQ(Counted().count("reports_accepted"), 0u);
}

}  // namespace
}  // namespace spillway::switching

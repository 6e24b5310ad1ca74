// SPDX-License-Identifier: Apache-2.0
// The report's codec and tag against a second derivation: SipHash-2-4 written from the paper's text,
// byte by byte, checked itself by the paper's test vector.
#include <arpa/inet.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <vector>

#include "agent/reporter.h"
#include "core/report.h"

namespace spillway::agent {
namespace {

using namespace std::chrono_literals;

uint64_t LittleEndian(const uint8_t* bytes, size_t count) {
  uint64_t word = 0;
  for (size_t i = 0; i < count; i++) word |= static_cast<uint64_t>(bytes[i]) << (8 * i);
  return word;
}

uint64_t SlowSipHash(const std::array<uint8_t, 16>& key, const std::vector<uint8_t>& message) {
  const auto rotate = [](uint64_t x, int bits) { return x << bits | x >> (64 - bits); };
  uint64_t v[4];
  const char* constants[] = {"somepseu", "dorandom", "lygenera", "tedbytes"};  // big-endian words
  for (int i = 0; i < 4; i++) {
    v[i] = 0;
    for (int j = 0; j < 8; j++) v[i] = v[i] << 8 | static_cast<uint8_t>(constants[i][j]);
    v[i] ^= LittleEndian(&key[8 * (i % 2)], 8);
  }
  const auto rounds = [&](int count) {
    while (count-- > 0) {
      v[0] += v[1], v[2] += v[3];
      v[1] = rotate(v[1], 13) ^ v[0], v[3] = rotate(v[3], 16) ^ v[2];
      v[0] = rotate(v[0], 32);
      v[2] += v[1], v[0] += v[3];
      v[1] = rotate(v[1], 17) ^ v[2], v[3] = rotate(v[3], 21) ^ v[0];
      v[2] = rotate(v[2], 32);
    }
  };
  const auto absorb = [&](uint64_t word) {
    v[3] ^= word;
    rounds(2);
    v[0] ^= word;
  };
  size_t at = 0;
  for (; at + 8 <= message.size(); at += 8) absorb(LittleEndian(&message[at], 8));
  absorb(LittleEndian(message.data() + at, message.size() - at) | static_cast<uint64_t>(message.size())
                                                                      << 56);
  v[2] ^= 0xff;
  rounds(4);
  return v[0] ^ v[1] ^ v[2] ^ v[3];
}

std::vector<uint8_t> Counting(size_t count) {
  std::vector<uint8_t> bytes(count);
  for (size_t i = 0; i < count; i++) bytes[i] = static_cast<uint8_t>(i);
  return bytes;
}

constexpr Key kKey = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};

TEST(SipHash, ReferenceAgreesWithThePaper) {
  // Appendix A of the SipHash paper: 15 bytes 00..0e.
  EXPECT_EQ(SlowSipHash(kKey, Counting(15)), 0xa129ca6149be45e5ULL);
}

TEST(SipHash, CoreAgreesWithTheReference) {
  const spw_siphash_key key = spw_siphash_key_of(kKey.data());
  EXPECT_EQ(key.k0, 0x0706050403020100ULL);
  for (uint32_t count = 0; count <= 8; count++) {
    const auto message = Counting(8 * count);
    uint64_t words[8] = {};
    for (uint32_t i = 0; i < count; i++) words[i] = LittleEndian(&message[8 * i], 8);
    __u64 in[8];
    std::memcpy(in, words, sizeof(in));
    EXPECT_EQ(spw_siphash24(&key, in, count), SlowSipHash(kKey, message)) << 8 * count << " bytes";
  }
}

class Report : public ::testing::Test {
 protected:
  static AgentConfig Config() {
    AgentConfig config;
    config.key = kKey;
    config.server_code = 0x123;
    config.unit = 5;
    config.report.period = 20ms;
    config.report.heartbeat = 1s;
    return config;
  }
  Reporter reporter_{Config(), 0x0102030405060708};
};

TEST_F(Report, LiesOnTheWireAsSpecified) {
  Reading reading;
  reading.queue = 0x0a0b;
  reading.latency_us = 0x01020304;
  reading.completed = 0x1111222233334444;
  reading.learnt = {.base_us = 0x05060708,
                    .slot_ns = 0x090a0b0c,
                    .knee_us = 0x0d0e0f10,
                    .backlog_us = 0x11121314,
                    .tail_us = 0x15161718,
                    .slot_guessed = true};
  reading.at = 1s;
  const spw_report_wire wire = reporter_.Encode(1s + 258us, {true, true, 200}, reading);
  uint8_t bytes[sizeof(wire)];
  std::memcpy(bytes, &wire, sizeof(wire));
  const std::vector<uint8_t> expected = {
      'S', 'P', 'W',  'R',  4,    5,    0x01, 0x23, 1,    2,    3,    4,    5,    6,    7,    8,
      0,   0,   0,    1,    200,  3,    0x0a, 0x0b, 1,    2,    3,    4,    0x33, 0x33, 0x44, 0x44,
      5,   6,   7,    8,    9,    0x0a, 0x0b, 0x0c, 0x0d, 0x0e, 0x0f, 0x10, 0,    0,    1,    2,
      0,   0,   0x4e, 0x20, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18, 0,    0,    0,    0};
  EXPECT_EQ(std::vector<uint8_t>(bytes, bytes + 64), expected);
  EXPECT_EQ(LittleEndian(bytes + 64, 8), SlowSipHash(kKey, expected));
}

TEST_F(Report, AfterTheLastSequenceTheBootIdGrows) {
  Reporter reporter(Config(), 1000, UINT32_MAX - 1);
  spw_report_seen seen{};
  for (int i = 0; i < 3; i++) {
    const spw_report_wire wire = reporter.Encode(0s, {}, {});
    spw_report report{};
    ASSERT_EQ(spw_report_decode(&wire, sizeof(wire), &report), SPW_REPORT_OK);
    EXPECT_TRUE(spw_report_is_newer(&report, &seen)) << i;
    EXPECT_EQ(report.boot_id, i == 0 ? 1000u : 1001u);
    seen = {.boot_id = report.boot_id, .sequence = report.sequence, .pad = 0};
  }
}

TEST_F(Report, DecodesToWhatWasSaidAndGrows) {
  Reading reading;
  reading.queue = 100'000;
  const spw_siphash_key key = spw_siphash_key_of(kKey.data());
  spw_report_seen seen{};
  for (uint32_t sequence = 1; sequence <= 3; sequence++) {
    const spw_report_wire wire = reporter_.Encode(0s, {sequence == 2, false, 9}, reading);
    spw_report report{};
    ASSERT_EQ(spw_report_decode(&wire, sizeof(wire), &report), SPW_REPORT_OK);
    EXPECT_EQ(spw_report_tag(&wire, &key), wire.tag);
    EXPECT_EQ(report.queue, 65535) << "saturates";
    EXPECT_EQ(report.flags, sequence == 2 ? SPW_REPORT_BUSY : 0);
    EXPECT_TRUE(spw_report_is_newer(&report, &seen));
    seen = {report.boot_id, report.sequence, 0};
    EXPECT_FALSE(spw_report_is_newer(&report, &seen));
  }
}

TEST_F(Report, SaysThatTheUnitFailsAndWhy) {
  const auto flags = [this](Failure failure) {
    return reporter_.Encode(0s, {true, false, 9, failure}, {}).flags;
  };
  EXPECT_EQ(flags(Failure::kNone), SPW_REPORT_BUSY);
  EXPECT_EQ(flags(Failure::kUnanswered), SPW_REPORT_BUSY | SPW_REPORT_FAILING);
  EXPECT_EQ(flags(Failure::kRefused), SPW_REPORT_BUSY | SPW_REPORT_FAILING | SPW_REPORT_REFUSED);
  EXPECT_EQ(flags(Failure::kErrors), SPW_REPORT_BUSY | SPW_REPORT_FAILING | SPW_REPORT_ERRORS);
}

TEST(Reporter, TheNextReportComesWithinTheHeartbeatIfOnlyChangesAreTold) {
  AgentConfig config;
  config.report.mode = ReportMode::kOnThreshold;
  config.report.heartbeat = 2s;
  Reading reading;
  reading.at = 5s;  // a clock read earlier than the meter is no age
  spw_report report{};
  const spw_report_wire wire = Reporter(config, 1).Encode(4s, {}, reading);
  ASSERT_EQ(spw_report_decode(&wire, sizeof(wire), &report), SPW_REPORT_OK);
  EXPECT_EQ(report.period_us, 2'000'000u);
  EXPECT_EQ(report.age_us, 0u);
}

TEST(Reporter, SendsToEverySwitchAndOutlivesThoseThatAreAway) {
  const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  sockaddr_in own{};
  own.sin_family = AF_INET;
  own.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof(own);
  ASSERT_EQ(bind(fd, reinterpret_cast<sockaddr*>(&own), length), 0);
  ASSERT_EQ(getsockname(fd, reinterpret_cast<sockaddr*>(&own), &length), 0);
  AgentConfig config;
  config.key = kKey;
  // The first refuses at once: a broadcast address without SO_BROADCAST.
  config.switches = {*Endpoint::Parse("255.255.255.255:9"),
                     *Endpoint::Parse("127.0.0.1:" + std::to_string(ntohs(own.sin_port)))};
  Reporter reporter(config, 1);
  for (int i = 0; i < 3; i++) reporter.Send(i * 1s, {}, {});
  EXPECT_EQ(reporter.sent(), 3u);
  EXPECT_EQ(reporter.failed(), 3u);
  uint8_t datagram[64];
  for (int i = 0; i < 3; i++) EXPECT_EQ(recv(fd, datagram, sizeof(datagram), MSG_DONTWAIT), 64);
  close(fd);
}

}  // namespace
}  // namespace spillway::agent

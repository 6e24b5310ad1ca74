// SPDX-License-Identifier: Apache-2.0
// The load report on the wire: round trip, one worked example byte by byte, every malformed variant,
// and what counts as newer.
#include "core/report.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "siphash_reference.h"

namespace spillway {
namespace {

spw_report Example() {
  spw_report report{};
  report.boot_id = 1700000000000000;  // 2023-11-14 22:13:20 UTC, in microseconds
  report.sequence = 42;
  report.latency_us = 1234;
  report.completed = 100000;
  report.server = 258;
  report.queue = 7;
  report.unit = 1;
  report.level = 130;
  report.flags = SPW_REPORT_BUSY;
  report.base_us = 3100;
  report.slot_ns = 436000;
  report.knee_us = 3000;
  report.age_us = 250;
  report.period_us = 20000;
  report.backlog_us = 12345;
  report.tail_us = 9000;
  return report;
}

spw_siphash_key ExampleKey() { return {0x0706050403020100ULL, 0x0f0e0d0c0b0a0908ULL}; }

TEST(Report, WorkedExampleByteByByte) {
  spw_report_wire wire;
  spw_report report = Example();
  spw_siphash_key key = ExampleKey();
  spw_report_encode(&wire, &report, &key);
  const uint8_t expected[64] = {
      'S',  'P',  'W',  'R',                           // magic
      4,                                               // version
      1,                                               // unit
      0x01, 0x02,                                      // server 258
      0x00, 0x06, 0x0a, 0x24, 0x18, 0x1e, 0x40, 0x00,  // boot id
      0x00, 0x00, 0x00, 0x2a,                          // sequence 42
      0x82,                                            // level 130
      0x01,                                            // flags: busy
      0x00, 0x07,                                      // queue 7
      0x00, 0x00, 0x04, 0xd2,                          // latency 1234 us
      0x00, 0x01, 0x86, 0xa0,                          // completed 100000
      0x00, 0x00, 0x0c, 0x1c,                          // base 3100 us
      0x00, 0x06, 0xa7, 0x20,                          // slot 436000 ns
      0x00, 0x00, 0x0b, 0xb8,                          // knee 3000 us
      0x00, 0x00, 0x00, 0xfa,                          // age 250 us
      0x00, 0x00, 0x4e, 0x20,                          // period 20000 us
      0x00, 0x00, 0x30, 0x39,                          // backlog 12345 us
      0x00, 0x00, 0x23, 0x28,                          // tail 9000 us
      0x00, 0x00, 0x00, 0x00,                          // reserved
  };
  EXPECT_EQ(std::memcmp(&wire, expected, sizeof(expected)), 0);
  std::array<uint8_t, 16> key_bytes;
  for (size_t i = 0; i < 16; i++) key_bytes[i] = static_cast<uint8_t>(i);
  uint64_t tag = SlowSipHash::Hash(key_bytes, std::vector<uint8_t>(expected, expected + sizeof(expected)));
  uint8_t tag_bytes[8];
  std::memcpy(tag_bytes, &wire.tag, 8);
  for (int i = 0; i < 8; i++) EXPECT_EQ(tag_bytes[i], static_cast<uint8_t>(tag >> (8 * i))) << i;
}

TEST(Report, DecodesWhatWasEncoded) {
  std::mt19937_64 random(10);
  for (int i = 0; i < 2000; i++) {
    spw_report in{};
    in.boot_id = random();
    in.sequence = static_cast<uint32_t>(random());
    in.latency_us = static_cast<uint32_t>(random());
    in.completed = static_cast<uint32_t>(random());
    in.server = static_cast<uint16_t>(random() % SPW_MAX_SERVERS);
    in.queue = static_cast<uint16_t>(random());
    in.unit = static_cast<uint8_t>(random() % SPW_UNITS_PER_SERVER);
    in.level = static_cast<uint8_t>(random());
    in.flags = static_cast<uint8_t>(random());
    in.base_us = static_cast<uint32_t>(random());
    in.slot_ns = static_cast<uint32_t>(random());
    in.knee_us = static_cast<uint32_t>(random());
    in.age_us = static_cast<uint32_t>(random());
    in.period_us = static_cast<uint32_t>(random());
    in.backlog_us = static_cast<uint32_t>(random());
    in.tail_us = static_cast<uint32_t>(random());
    spw_siphash_key key{random(), random()};
    spw_report_wire wire;
    spw_report_encode(&wire, &in, &key);
    spw_report out;
    std::memset(&out, 0xee, sizeof(out));
    ASSERT_EQ(spw_report_decode(&wire, sizeof(wire), &out), SPW_REPORT_OK);
    ASSERT_EQ(out.boot_id, in.boot_id);
    ASSERT_EQ(out.sequence, in.sequence);
    ASSERT_EQ(out.latency_us, in.latency_us);
    ASSERT_EQ(out.completed, in.completed);
    ASSERT_EQ(out.server, in.server);
    ASSERT_EQ(out.queue, in.queue);
    ASSERT_EQ(out.unit, in.unit);
    ASSERT_EQ(out.level, in.level);
    ASSERT_EQ(out.flags, in.flags);
    ASSERT_EQ(out.base_us, in.base_us);
    ASSERT_EQ(out.slot_ns, in.slot_ns);
    ASSERT_EQ(out.knee_us, in.knee_us);
    ASSERT_EQ(out.age_us, in.age_us);
    ASSERT_EQ(out.period_us, in.period_us);
    ASSERT_EQ(out.backlog_us, in.backlog_us);
    ASSERT_EQ(out.tail_us, in.tail_us);
    for (auto byte : out.pad) ASSERT_EQ(byte, 0);
    ASSERT_EQ(spw_report_tag(&wire, &key), wire.tag);
  }
}

TEST(Report, EveryFlippedBitOfTheBodyOrTheKeyChangesTheTag) {
  spw_report report = Example();
  spw_siphash_key key = ExampleKey();
  spw_report_wire wire;
  spw_report_encode(&wire, &report, &key);
  for (int bit = 0; bit < 56 * 8; bit++) {
    spw_report_wire other = wire;
    reinterpret_cast<uint8_t*>(&other)[bit / 8] ^= static_cast<uint8_t>(1 << bit % 8);
    EXPECT_NE(spw_report_tag(&other, &key), wire.tag) << bit;
  }
  for (int bit = 0; bit < 64; bit++) {
    spw_siphash_key a{key.k0 ^ 1ULL << bit, key.k1}, b{key.k0, key.k1 ^ 1ULL << bit};
    EXPECT_NE(spw_report_tag(&wire, &a), wire.tag);
    EXPECT_NE(spw_report_tag(&wire, &b), wire.tag);
  }
}

TEST(Report, EveryMalformedVariantIsRefused) {
  spw_report report = Example(), out;
  spw_siphash_key key = ExampleKey();
  spw_report_wire good;
  spw_report_encode(&good, &report, &key);
  for (uint32_t bytes = 0; bytes < 100; bytes++) {
    EXPECT_EQ(spw_report_decode(&good, bytes, &out),
              bytes == sizeof good ? SPW_REPORT_OK : SPW_REPORT_MALFORMED)
        << bytes;
  }
  EXPECT_EQ(spw_report_decode(&good, 0xfffffff8u + 64, &out), SPW_REPORT_MALFORMED);
  for (int bit = 0; bit < 32; bit++) {
    spw_report_wire bad = good;
    bad.magic ^= 1u << bit;
    EXPECT_EQ(spw_report_decode(&bad, sizeof(bad), &out), SPW_REPORT_MALFORMED);
  }
  for (int version = 0; version < 256; version++) {
    spw_report_wire bad = good;
    bad.version = static_cast<uint8_t>(version);
    EXPECT_EQ(spw_report_decode(&bad, sizeof(bad), &out),
              version == SPW_REPORT_VERSION ? SPW_REPORT_OK : SPW_REPORT_OTHER_VERSION);
    bad.magic = 0;
    EXPECT_EQ(spw_report_decode(&bad, sizeof(bad), &out), SPW_REPORT_MALFORMED) << "no report of any version";
  }
  for (int unit = 0; unit < 256; unit++) {
    spw_report_wire bad = good;
    bad.unit = static_cast<uint8_t>(unit);
    EXPECT_EQ(spw_report_decode(&bad, sizeof(bad), &out), unit < 8 ? SPW_REPORT_OK : SPW_REPORT_MALFORMED);
  }
  for (uint32_t server : {0u, 4095u, 4096u, 8192u, 65535u}) {
    spw_report_wire bad = good;
    bad.server = spw_be16(server);
    EXPECT_EQ(spw_report_decode(&bad, sizeof(bad), &out),
              server < 4096 ? SPW_REPORT_OK : SPW_REPORT_MALFORMED);
  }
}

bool Newer(uint64_t boot, uint32_t sequence, uint64_t seen_boot, uint32_t seen_sequence) {
  spw_report report{};
  report.boot_id = boot;
  report.sequence = sequence;
  spw_report_seen seen{seen_boot, seen_sequence, 0};
  return spw_report_is_newer(&report, &seen) != 0;
}

TEST(Report, OfOneBootTheGreaterSequenceIsNewer) {
  EXPECT_TRUE(Newer(5, 2, 5, 1));
  EXPECT_FALSE(Newer(5, 1, 5, 1)) << "a replay";
  EXPECT_FALSE(Newer(5, 0, 5, 1)) << "overtaken";
  EXPECT_TRUE(Newer(5, 0xffffffffu, 5, 1));
  for (const uint32_t seen : {0x80000001u, 0x80000002u, 0xffffffffu})
    EXPECT_FALSE(Newer(5, 1, 5, seen)) << "recorded long ago, and replayed after " << seen;
}

TEST(Report, ALaterBootIsNewerWhateverItsSequence) {
  EXPECT_TRUE(Newer(6, 0, 5, 1000));
  EXPECT_FALSE(Newer(4, 2000, 5, 1000)) << "a recording of an earlier life";
  EXPECT_TRUE(Newer(1, 0, 0, 0)) << "nothing seen yet";
  EXPECT_TRUE(Newer(~0ULL, 0, 5, 1)) << "boot ids do not wrap";
  EXPECT_FALSE(Newer(5, 1, ~0ULL, 0));
}

}  // namespace
}  // namespace spillway

// SPDX-License-Identifier: Apache-2.0
// core/types.h and byte_order.h: ids, clocks, branch-free selection; and that C and C++ read the same
// text the same way.
#include "core/types.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>

#include <random>

#include "as_c.h"
#include "core/byte_order.h"

namespace spillway {
namespace {

TEST(Types, UnitIdNamesServerAndIndexForEveryCode) {
  for (uint32_t server = 0; server < SPW_MAX_SERVERS; server++) {
    for (uint32_t unit = 0; unit < SPW_UNITS_PER_SERVER; unit++) {
      uint16_t id = spw_unit_id(server, unit);
      ASSERT_LT(id, SPW_MAX_UNITS);
      ASSERT_NE(id, SPW_NO_UNIT);
      ASSERT_EQ(spw_unit_server(id), server);
      ASSERT_EQ(spw_unit_index(id), unit);
    }
  }
}

TEST(Types, LessAndSelectAgreeWithBranches) {
  const uint64_t edges[] = {0, 1, 2, 0xffff, 0x7fffffff, 0xffffffff, 1ULL << 62, (1ULL << 63) - 1};
  for (uint64_t a : edges) {
    EXPECT_EQ(spw_is_zero(a), a == 0 ? 1u : 0u);
    for (uint64_t b : edges) {
      EXPECT_EQ(spw_less(a, b), a < b ? 1u : 0u) << a << " " << b;
      EXPECT_EQ(spw_select(1, a, b), a);
      EXPECT_EQ(spw_select(0, a, b), b);
    }
  }
}

TEST(Types, TicksAndBeatsAreCutFromOneClock) {
  EXPECT_EQ(spw_ticks((1ULL << 30) - 1), 0u);
  EXPECT_EQ(spw_ticks(1ULL << 30), 1u);
  EXPECT_EQ(spw_beats((1ULL << 20) - 1), 0u);
  EXPECT_EQ(spw_beats(5ULL << 20), 5u);
  EXPECT_EQ(spw_beats(1ULL << 30), 1024u);  // 1,024 beats a tick
}

TEST(Types, ByteOrderIsTheNetworks) {
  EXPECT_EQ(spw_be16(0x1234), htons(0x1234));
  EXPECT_EQ(spw_be32(0x12345678), htonl(0x12345678));
  EXPECT_EQ(spw_be64(spw_be64(0x0102030405060708ULL)), 0x0102030405060708ULL);
  uint64_t wire = spw_be64(0x0102030405060708ULL);
  EXPECT_EQ(reinterpret_cast<const uint8_t*>(&wire)[0], 1);
}

TEST(Types, CAndCxxComputeTheSame) {
  constexpr uint64_t kNow = uint64_t{200} << SPW_BEAT_SHIFT;
  std::mt19937_64 random(1);
  for (int i = 0; i < 2000; i++) {
    spw_seed seed;
    for (auto& k : seed.key) k = static_cast<uint32_t>(random());
    seed.mix = random();
    uint32_t src = static_cast<uint32_t>(random()), dst = static_cast<uint32_t>(random());
    uint32_t ports = static_cast<uint32_t>(random());
    ASSERT_EQ(spw_hash_v4(&seed, src, dst, ports, 6), c_hash_v4(&seed, src, dst, ports, 6));
    spw_server a{}, b{};
    for (spw_server* s : {&a, &b}) {
      for (auto& unit : s->unit)
        unit = {static_cast<uint8_t>(random() % 4), static_cast<uint8_t>(random() % 3),
                static_cast<uint16_t>(1 + random() % 10000)};
      for (auto& load : s->load) {
        load.flags = random() % 2;
        load.queue = static_cast<uint16_t>(random() % 50);
        load.latency_us = static_cast<uint32_t>(random() % 100'000);
        load.report_beat = 1 + random() % 200;
        load.assigned = static_cast<uint32_t>(random() % 9);
        load.base_us = static_cast<uint32_t>(random() % 1000);
        load.slot_ns = static_cast<uint32_t>(1 + random() % 1'000'000);
        load.knee_us = static_cast<uint32_t>(1 + random() % 9000);
        load.tail_us = static_cast<uint32_t>(random() % 5000);
        load.share_ns = random() % 3'000'000;
        load.drained_ns = kNow + random() % 20'000'000 - 10'000'000;
      }
      s->silent_beats = 100;
      s->share_ns = random() % 2'000'000;
    }
    uint64_t hash = random();
    for (uint8_t policy = 0; policy < SPW_UNIT_POLICIES; policy++) {
      ASSERT_EQ(spw_choose_unit(&a, policy, i % 8, hash, kNow, i),
                c_choose_unit(&a, policy, i % 8, hash, kNow, i));
    }
    ASSERT_EQ(spw_prefer_second(&a, &b, i % 8, kNow), c_prefer_second(&a, &b, i % 8, kNow));
    spw_report report{};
    report.boot_id = random();
    spw_siphash_key key{random(), random()};
    spw_report_wire wire;
    spw_report_encode(&wire, &report, &key);
    ASSERT_EQ(wire.tag, c_report_tag(&wire, &key));
  }
}

}  // namespace
}  // namespace spillway

// SPDX-License-Identifier: Apache-2.0
// Endpoint tables under random change: the data plane's probe finds exactly the live keys, always,
// also half-way through a change.
#include "switch/endpoint_table.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <map>
#include <random>

namespace spillway::switching {
namespace {

MappedArray<spw_endpoint> MakeTable(uint32_t lines) {
  int fd = memfd_create("lines", 0);
  if (ftruncate(fd, static_cast<off_t>(lines * sizeof(spw_endpoint))) != 0) std::abort();
  auto table = MappedArray<spw_endpoint>::Map(fd, lines, "lines");
  close(fd);
  return std::move(*table);
}

spw_endpoint Endpoint(uint32_t number, uint16_t service = 0) {
  spw_endpoint e{};
  e.addr[0] = 0xcb007100u + number / 4;
  e.port = static_cast<uint16_t>(number % 4 + 80);
  e.proto = 6;
  e.family = number % 3 == 0 ? 6 : 4;
  if (e.family == 6) e.addr[1] = e.addr[2] = e.addr[3] = number;
  e.kind = SPW_ENDPOINT_SERVICE;
  e.service = service;
  return e;
}

// The data plane's rule (bpf/forward.h), written out.
const spw_endpoint* Probe(const MappedArray<spw_endpoint>& table, const spw_endpoint& key) {
  uint32_t line = spw_endpoint_home(key.addr, key.port, key.proto, table.size() - 1);
  for (int probe = 0; probe < SPW_ENDPOINT_PROBES; probe++, line = (line + 1) % table.size()) {
    const spw_endpoint& e = table[line];
    if (e.kind == SPW_ENDPOINT_EMPTY) return nullptr;
    if (e.kind != SPW_ENDPOINT_GONE && spw_endpoint_matches(&e, key.addr, key.port, key.proto, key.family))
      return &e;
  }
  return nullptr;
}

TEST(EndpointTable, RandomChangesLeaveExactlyTheLiveKeys) {
  std::mt19937_64 random(95);
  auto table = MakeTable(1024);
  std::map<uint32_t, spw_endpoint> live;
  for (int round = 0; round < 400; round++) {
    auto before = live;
    for (uint64_t change = random() % 40; change > 0; change--) {
      uint32_t number = static_cast<uint32_t>(random() % 400);
      if (live.contains(number) && random() % 2) {
        live.erase(number);
      } else if (live.size() < 256 || live.contains(number)) {
        live[number] = Endpoint(number, static_cast<uint16_t>(random() % 1024));
      }
    }
    std::vector<spw_endpoint> wanted;
    for (const auto& [number, e] : live) wanted.push_back(e);
    std::shuffle(wanted.begin(), wanted.end(), random);
    auto writes = PlanLines(table, wanted, "services");
    ASSERT_TRUE(writes.has_value()) << writes.error().message;
    // One write at a time: a key that stays is found at every moment, as it was or as it will be.
    for (const LineWrite& write : *writes) {
      WriteLines(table, {write});
      for (const auto& [number, e] : live) {
        if (!before.contains(number)) continue;
        const spw_endpoint* found = Probe(table, e);
        ASSERT_NE(found, nullptr) << "round " << round;
        ASSERT_TRUE(found->service == e.service || found->service == before[number].service);
      }
    }
    for (uint32_t number = 0; number < 400; number++) {
      const spw_endpoint* found = Probe(table, Endpoint(number));
      ASSERT_EQ(found != nullptr, live.contains(number)) << "round " << round << " key " << number;
      if (found != nullptr) {
        ASSERT_EQ(std::memcmp(found, &live[number], sizeof(*found)), 0);
      }
    }
    ASSERT_TRUE(PlanLines(table, wanted, "services")->empty()) << "nothing is left to do";
  }
}

TEST(EndpointTable, AFullTableIsRefusedAndNothingChanges) {
  auto table = MakeTable(16);
  std::vector<spw_endpoint> wanted;
  for (uint32_t i = 0; i < 17; i++) wanted.push_back(Endpoint(i));
  auto writes = PlanLines(table, wanted, "replies");
  ASSERT_FALSE(writes.has_value());
  EXPECT_NE(writes.error().message.find("replies"), std::string::npos);
  for (uint32_t line = 0; line < 16; line++) EXPECT_EQ(table[line].kind, SPW_ENDPOINT_EMPTY);
}

TEST(EndpointTable, AtAQuarterFullEverythingFindsItsPlace) {
  for (uint64_t seed = 0; seed < 50; seed++) {
    std::mt19937_64 random(seed);
    auto table = MakeTable(8192);
    std::vector<spw_endpoint> wanted;
    for (uint32_t i = 0; i < 2048; i++) {
      spw_endpoint e = Endpoint(0);
      e.family = 4;
      e.addr[0] = static_cast<uint32_t>(random());
      e.addr[1] = e.addr[2] = e.addr[3] = 0;
      wanted.push_back(e);
    }
    ASSERT_TRUE(PlanLines(table, wanted, "services").has_value()) << seed;
  }
}

}  // namespace
}  // namespace spillway::switching

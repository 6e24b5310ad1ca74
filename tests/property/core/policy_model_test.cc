// SPDX-License-Identifier: Apache-2.0
// Policies against a slow model written with plain branches and vectors, on random server states.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "core/policy.h"

namespace spillway {
namespace {

// What a reader of policy.h's comments would write down.
class Model {
 public:
  Model(const spw_server& server, uint64_t now)
      : server_(server), now_(now), beat_(static_cast<uint32_t>(now >> SPW_BEAT_SHIFT)) {}

  int Choose(int policy, uint32_t default_unit, uint64_t hash, uint32_t draw) const {
    for (int u = 0; u < 8; u++) {
      bool serves = policy != SPW_UNIT_HOST_ONLY || server_.unit[u].kind == SPW_KIND_CPU;
      if (server_.unit[u].status == SPW_UNIT_UP && serves && WantsProbe(u)) return u;
    }
    std::vector<int> up;
    for (int u = 0; u < 8; u++) {
      if (IsWell(u)) up.push_back(u);
    }
    if (up.empty()) return -1;
    bool default_up = IsWell(static_cast<int>(default_unit));
    if (policy == SPW_UNIT_HOST_ONLY) {
      if (default_up) return static_cast<int>(default_unit);
      for (int u : up) {
        if (server_.unit[u].kind == SPW_KIND_CPU) return u;
      }
      return -1;
    }
    if (policy == SPW_UNIT_ECMP) {
      if (default_up) return static_cast<int>(default_unit);
      uint32_t uniform = static_cast<uint32_t>(hash >> 16);
      return up[static_cast<size_t>((static_cast<unsigned __int128>(uniform) * up.size()) >> 32)];
    }
    int in_turn = Turn(up, draw);
    if (policy == SPW_UNIT_WRR) return in_turn;
    auto unknown = [&](int u) { return IsSilent(u) || (policy == SPW_UNIT_HEADROOM && IsBlind(u)); };
    if (unknown(in_turn)) return in_turn;
    std::vector<int> heard;
    for (int u : up) {
      if (!unknown(u)) heard.push_back(u);
    }
    switch (policy) {
      case SPW_UNIT_P4MITE:
        return FirstIdle(heard);
      case SPW_UNIT_LEAST_LOADED:
        return LeastLoaded(heard);
      case SPW_UNIT_JSQ:
        return *std::min_element(heard.begin(), heard.end(),
                                 [&](int a, int b) { return server_.load[a].queue < server_.load[b].queue; });
      default:
        return Cheapest(heard);
    }
  }

  bool AnyWantsProbe(int policy) const {
    for (int u = 0; u < 8; u++) {
      bool serves = policy != SPW_UNIT_HOST_ONLY || server_.unit[u].kind == SPW_KIND_CPU;
      if (server_.unit[u].status == SPW_UNIT_UP && serves && WantsProbe(u)) return true;
    }
    return false;
  }
  // Of the units that are up and do not fail; all must be heard of.
  bool AnyBlind() const {
    for (int u = 0; u < 8; u++) {
      if (IsWell(u) && IsBlind(u)) return true;
    }
    return false;
  }
  bool AnySilent() const {
    for (int u = 0; u < 8; u++) {
      if (IsWell(u) && IsSilent(u)) return true;
    }
    return false;
  }
  // (backlog in sixteenths, capacity) over the units that are up.
  std::pair<uint64_t, uint64_t> Load() const {
    std::pair<uint64_t, uint64_t> sum{0, 0};
    for (int u = 0; u < 8; u++) {
      if (!IsWell(u)) continue;
      sum.first += Backlog(u);
      sum.second += server_.unit[u].weight;
    }
    return sum;
  }

 private:
  uint32_t Since(uint32_t then) const {
    bool is_later = then - beat_ - 1 < SPW_BEAT_LAG;  // by another CPU's clock
    return is_later ? 0 : beat_ - then;
  }
  uint32_t Age(int u) const { return Since(server_.load[u].report_beat); }
  bool IsOut(int u) const { return (server_.failing >> u & 1) != 0 && !IsSilent(u); }
  bool IsWell(int u) const { return server_.unit[u].status == SPW_UNIT_UP && !IsOut(u); }
  bool WantsProbe(int u) const {
    uint32_t interval = std::clamp(Since(server_.health[u].out_beat) / 8, 16u, 256u);
    return IsOut(u) && Since(server_.health[u].probe_beat) >= interval;
  }
  bool IsSilent(int u) const { return server_.load[u].report_beat == 0 || Age(u) > server_.silent_beats; }
  // Sixteenths of a request: the part latency / age of all that came since the report.
  uint64_t Backlog(int u) const {
    const spw_unit_load& load = server_.load[u];
    uint64_t seen = (uint64_t{load.queue} + load.assigned) * 16;
    uint64_t latency = std::min<uint64_t>(load.latency_us, 1 << 24), age = uint64_t{Age(u)} * 1024;
    return latency == 0 || age <= latency ? seen : seen * latency / age;
  }
  bool IsBlind(int u) const {
    const spw_unit_load& load = server_.load[u];
    return load.base_us == 0 || load.slot_ns == 0;
  }
  // headroom.h's comment in floating point; the integers' only rounding is the last one.
  double Cost(int u) const {
    const spw_unit_load& load = server_.load[u];
    double slot = load.slot_ns, now = static_cast<double>(now_);
    double ahead = std::clamp(static_cast<double>(load.drained_ns) - now, 0.0, std::ldexp(1.0, 44));
    double wait = std::max(0.0, ahead + slot - load.knee_us * 1000.0);
    uint32_t pressure = server_.pressure / 128;  // 1,024ths
    double gamma = std::min(3 * 1024u, 1280 + pressure + pressure / 2);
    double beta = std::min(1024u, 102 + 2 * pressure + pressure / 2);
    double lead = std::floor(std::max(0.0, double(load.share_ns) - double(server_.share_ns)) / 4);
    double waits =
        std::max(double(load.tail_us) - double(load.base_us), std::floor(load.base_us / 4.0)) * 1000;
    return load.base_us * 1000.0 + std::min(lead, waits) +
           std::floor((gamma * wait + beta * (ahead + slot)) / 1024);
  }
  int Cheapest(const std::vector<int>& units) const {
    return *std::min_element(units.begin(), units.end(), [&](int a, int b) { return Cost(a) < Cost(b); });
  }
  int Turn(const std::vector<int>& units, uint32_t draw) const {
    uint64_t total = 0;
    for (int u : units) total += server_.unit[u].weight;
    uint64_t at = (uint64_t{draw * 0x9e3779b1u} * total) >> 32;
    for (int u : units) {
      if (at < server_.unit[u].weight) return u;
      at -= server_.unit[u].weight;
    }
    return -1;
  }
  int FirstIdle(const std::vector<int>& units) const {
    for (int u : units) {
      if ((server_.load[u].flags & SPW_REPORT_BUSY) == 0) return u;
    }
    return units.front();
  }
  int LeastLoaded(const std::vector<int>& units) const {
    int best = units.front();
    for (int u : units) {
      auto cost = [&](int x) { return Backlog(x) + 16; };
      if (static_cast<unsigned __int128>(cost(u)) * server_.unit[best].weight <
          static_cast<unsigned __int128>(cost(best)) * server_.unit[u].weight) {
        best = u;
      }
    }
    return best;
  }

  const spw_server& server_;
  uint64_t now_;
  uint32_t beat_;
};

// Below 2^48 ns (3 days), so that a double holds every sum of Cost exactly.
uint64_t TimeAt(std::mt19937_64& random, uint32_t beat) {
  return (uint64_t{beat} << SPW_BEAT_SHIFT) + random() % (1u << SPW_BEAT_SHIFT);
}

spw_server RandomServer(std::mt19937_64& random, uint32_t beat) {
  spw_server server{};
  uint64_t now = uint64_t{beat} << SPW_BEAT_SHIFT;
  bool slow = random() % 2 == 0;
  server.pressure = static_cast<uint32_t>(random() % (random() % 2 ? 1024 * 128 : 16 * 1024 * 128));
  server.silent_beats = static_cast<uint32_t>(random() % 5000);
  server.share_ns = (uint64_t{1} << 40) + random() % 500'000'000;
  bool crowded = random() % 4 == 0;
  if (random() % 2 == 0) server.failing = static_cast<uint32_t>(random() & random() & 0xff);
  if (random() % 16 == 0) server.failing = 0xff;
  for (int u = 0; u < 8; u++) {
    auto status = random() % 3 == 0 ? random() % 4 : uint64_t{SPW_UNIT_UP};
    server.unit[u] = {static_cast<uint8_t>(status), static_cast<uint8_t>(random() % 6),
                      static_cast<uint16_t>(random() % 3 == 0 ? 1 + random() % 10'000 : 1 + random() % 4)};
    spw_unit_load& load = server.load[u];
    load.flags = static_cast<uint8_t>(random() % 16);  // of which only BUSY is read here
    server.health[u].out_beat = beat - static_cast<uint32_t>(random() % (random() % 2 ? 4000 : 100)) + 10;
    server.health[u].probe_beat = beat - static_cast<uint32_t>(random() % 300) + 10;
    load.queue = static_cast<uint16_t>(crowded ? random() : random() % 8);
    load.assigned = static_cast<uint32_t>(crowded ? random() : random() % 8);
    load.latency_us = random() % 4 == 0 ? 0 : static_cast<uint32_t>(random() >> (32 + random() % 32));
    load.report_beat = random() % 4 == 0   ? static_cast<uint32_t>(random())
                       : random() % 8 == 0 ? 0
                                           : beat - static_cast<uint32_t>(random() % 3000);
    load.base_us = random() % 16 == 0 ? 0 : static_cast<uint32_t>(random() % (slow ? 1'000'000 : 5000));
    load.slot_ns = random() % 16 == 0 ? 0 : static_cast<uint32_t>(random() % (slow ? 400'000'000 : 500'000));
    load.knee_us = random() % 16 == 0 ? 0 : static_cast<uint32_t>(random() % (slow ? 2'000'000 : 8000));
    load.tail_us = static_cast<uint32_t>(random() % (slow ? 4'000'000 : 20'000));
    load.share_ns = (uint64_t{1} << 40) + random() % (slow ? 1'000'000'000 : 2'000'000);
    load.drained_ns =
        crowded && random() % 4 == 0 ? now + (random() >> 16) : now + random() % 60'000'000 - 30'000'000;
  }
  return server;
}

TEST(PolicyModel, EveryPolicyAgreesWithPlainBranches) {
  std::mt19937_64 random(40);
  for (int round = 0; round < 100'000; round++) {
    uint32_t beat = static_cast<uint32_t>(100 + random() % (random() % 10 == 0 ? 100 : 1u << 28));
    uint64_t now = TimeAt(random, beat);
    spw_server server = RandomServer(random, beat);
    Model model(server, now);
    uint32_t default_unit = static_cast<uint32_t>(random() % 8), draw = static_cast<uint32_t>(random());
    uint64_t hash = random();
    for (int policy = 0; policy < SPW_UNIT_POLICIES; policy++) {
      ASSERT_EQ(spw_choose_unit(&server, static_cast<uint8_t>(policy), default_unit, hash, now, draw),
                model.Choose(policy, default_unit, hash, draw))
          << "round " << round << " policy " << policy;
    }
  }
}

TEST(PolicyModel, TheChosenUnitIsUpAndAFailingOneOnlyProbed) {
  std::mt19937_64 random(41);
  int probes = 0, none_well = 0;
  for (int round = 0; round < 100'000; round++) {
    uint32_t beat = static_cast<uint32_t>(random());
    spw_server server = RandomServer(random, beat);
    if (round % 8 == 0) {  // all of them, and just now
      server.failing = 0xff;
      for (int u = 0; u < 8; u++) {
        server.load[u].report_beat = beat == 0 ? 1 : beat;
        server.health[u] = {beat - 20, beat - static_cast<uint32_t>(random() % 18)};
      }
    }
    spw_outage outage = spw_outage_of(&server, beat);
    uint32_t up = spw_eligible(&server), well = up & ~outage.out;
    ASSERT_EQ(outage.due & ~outage.out, 0u);
    ASSERT_EQ(outage.out & ~server.failing, 0u);
    for (uint8_t policy = 0; policy < SPW_UNIT_POLICIES; policy++) {
      int unit = spw_choose_unit(&server, policy, random() % 8, random(), uint64_t{beat} << SPW_BEAT_SHIFT,
                                 static_cast<uint32_t>(random()));
      if (unit < 0) {
        if (policy != SPW_UNIT_HOST_ONLY) {
          ASSERT_EQ(well, 0u);
          none_well += up != 0;
        }
        continue;
      }
      ASSERT_NE((well | (up & outage.due)) >> unit & 1, 0u) << "policy " << int{policy};
      probes += outage.out >> unit & 1;
      spw_server after = server;
      spw_place_on(&after, policy, static_cast<uint32_t>(unit), uint64_t{beat} << SPW_BEAT_SHIFT);
      ASSERT_EQ(spw_outage_of(&after, beat).due & (1u << unit), 0u) << "one probe at a time";
    }
  }
  EXPECT_GT(probes, 1000);
  EXPECT_GT(none_well, 1000);
}

// However reports come, no more than half of a pool's units are out, and the pool's count is right.
TEST(PolicyModel, NoMoreThanHalfOfAPoolIsEverOut) {
  std::mt19937_64 random(44);
  for (int round = 0; round < 500; round++) {
    spw_server servers[4]{};
    for (spw_server& server : servers)
      for (auto& unit : server.unit) unit.status = SPW_UNIT_UP;
    spw_pool pool{static_cast<uint32_t>(random() % 33), 0, 0, 0};
    for (uint32_t step = 0; step < 300; step++) {
      spw_server& server = servers[random() % 4];
      uint32_t unit = static_cast<uint32_t>(random() % 8), before = pool.out;
      uint8_t flags = static_cast<uint8_t>(random() % 3 ? SPW_REPORT_FAILING | random() % 32 : random() % 4);
      if (random() % 40 == 0) pool.excused ^= SPW_REPORT_ERRORS;
      if (random() % 10 == 0) server.excused = random() % 256;
      server.excused_beat = 1000 + step - (random() % 2 ? SPW_EXCUSE_BEATS - 1 : SPW_EXCUSE_BEATS);
      uint64_t now = uint64_t{1000 + step} << SPW_BEAT_SHIFT;
      spw_health_change change = spw_health_report(&server, &pool, unit, flags, now);
      uint32_t out = 0;
      for (const spw_server& s : servers) out += static_cast<uint32_t>(__builtin_popcount(s.failing));
      ASSERT_EQ(pool.out, out);
      ASSERT_LE(2 * out, pool.units);
      bool says = (flags & SPW_REPORT_FAILING) != 0, is_out = (server.failing >> unit & 1) != 0;
      bool is_confirmed = 1000 + step - server.excused_beat < SPW_EXCUSE_BEATS;
      bool excused = (flags & pool.excused) != 0 ||
                     ((server.excused >> unit & 1) != 0 && is_confirmed && (flags & SPW_REPORT_ERRORS) == 0);
      ASSERT_EQ(change == SPW_HEALTH_OUT, out > before);
      ASSERT_EQ(change == SPW_HEALTH_BACK, out < before);
      ASSERT_EQ(change == SPW_HEALTH_KEPT, says && !is_out && out == before);
      if (!says || excused) {
        ASSERT_FALSE(is_out);
      }
    }
  }
}

TEST(PolicyModel, P2cAgreesWithPlainBranches) {
  std::mt19937_64 random(42);
  int preferred = 0;
  for (int round = 0; round < 100'000; round++) {
    uint32_t beat = static_cast<uint32_t>(4000 + random() % (1u << 28));
    spw_server a = RandomServer(random, beat), b = RandomServer(random, beat);
    a.silent_beats = b.silent_beats = 3000;
    for (spw_server* s : {&a, &b}) {
      for (auto& load : s->load) {
        if (random() % 20 == 0) continue;
        load.report_beat = beat + 20 - static_cast<uint32_t>(random() % 2000);
        if (load.report_beat == 0) load.report_beat = 1;
      }
    }
    uint64_t now = uint64_t{beat} << SPW_BEAT_SHIFT;
    Model one(a, now), two(b, now);
    auto [backlog_a, weight_a] = one.Load();
    auto [backlog_b, weight_b] = two.Load();
    bool expected, learnt;  // learnt: for a policy that must know what the units can do
    if (one.AnyWantsProbe(SPW_UNIT_P4MITE) || two.AnyWantsProbe(SPW_UNIT_P4MITE)) {
      expected = learnt = !one.AnyWantsProbe(SPW_UNIT_P4MITE);
    } else if (weight_a == 0 || weight_b == 0) {
      expected = learnt = weight_b != 0;
    } else if (one.AnySilent() || two.AnySilent()) {
      expected = learnt = false;
    } else {
      expected = static_cast<unsigned __int128>(backlog_b + 16) * weight_a <
                 static_cast<unsigned __int128>(backlog_a + 16) * weight_b;
      learnt = expected && !one.AnyBlind() && !two.AnyBlind();
    }
    ASSERT_EQ(spw_prefer_second(&a, &b, SPW_UNIT_P4MITE, now) != 0, expected) << "round " << round;
    ASSERT_EQ(spw_prefer_second(&a, &b, SPW_UNIT_HEADROOM, now) != 0, learnt) << "round " << round;
    preferred += expected;
  }
  EXPECT_GT(preferred, 10'000) << "the test must see both answers";
}

// Weighted turns over random weights: in a window of n draws each unit has its share of n. One
// interval of the golden-ratio sequence is off by O(log n): 8 for n <= 4096 leaves room.
TEST(PolicyModel, WeightedTurnsHoldTheirSharesOverAnyWindow) {
  std::mt19937_64 random(43);
  for (int round = 0; round < 200; round++) {
    spw_server server = RandomServer(random, 5);
    uint32_t eligible = spw_eligible(&server);
    if (eligible == 0) continue;
    uint32_t start = static_cast<uint32_t>(random()), window = 1 + static_cast<uint32_t>(random() % 4096);
    double total = 0;
    int counts[8] = {};
    for (int u = 0; u < 8; u++) total += (eligible >> u & 1) * server.unit[u].weight;
    for (uint32_t d = 0; d < window; d++) counts[spw_weighted_turn(&server, eligible, start + d)]++;
    for (int u = 0; u < 8; u++) {
      ASSERT_NEAR(counts[u], window * ((eligible >> u & 1) * server.unit[u].weight / total), 8.0) << window;
    }
  }
}

}  // namespace
}  // namespace spillway

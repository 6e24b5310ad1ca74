// SPDX-License-Identifier: Apache-2.0
// Config -> plan: codes that stay, rings that do not overlap.
#include "switch/plan.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

#include "core/ring.h"
#include "plan_bed.h"

namespace spillway::switching {
namespace {

using testing::HasSubstr;

std::map<std::string, uint16_t> Ids(const Plan& plan) {
  std::map<std::string, uint16_t> ids;
  for (const PlannedUnit& u : plan.units) ids[UnitName(u.pool, u.server, u.unit)] = u.id;
  return ids;
}

bool SameLedger(const Ledger& a, const Ledger& b) {
  auto rings = [](const Ledger& l) {
    std::map<std::string, std::pair<uint32_t, uint32_t>> r;
    for (const auto& [name, piece] : l.rings) r[name] = {piece.offset, piece.slots};
    return r;
  };
  return a.services.entries() == b.services.entries() && a.servers.entries() == b.servers.entries() &&
         a.unit_index == b.unit_index && rings(a) == rings(b) && a.status == b.status;
}

TEST(Plan, NamesKeepTheirCodesWhenServersComeAndGo) {
  std::mt19937_64 random(90);
  Ledger ledger;
  model::Config config = MakeConfig(10, 3);
  std::map<std::string, uint16_t> ids = Ids(*MakePlan(config, ledger, kCapacity));
  for (int round = 0; round < 60; round++) {
    auto& servers = config.pools[0].servers;
    if (random() % 2 && servers.size() > 3) {
      servers.erase(servers.begin() + static_cast<long>(random() % servers.size()));
    } else {
      servers.insert(servers.begin() + static_cast<long>(random() % servers.size()),
                     MakeServer(fmt::format("n{}", round), 100 + round));
    }
    auto plan = MakePlan(config, ledger, kCapacity);
    ASSERT_TRUE(plan.has_value()) << plan.error().message;
    auto now = Ids(*plan);
    std::set<uint16_t> distinct;
    for (const auto& [name, id] : now) {
      ASSERT_TRUE(distinct.insert(id).second) << "two units share an id";
      if (ids.contains(name)) {
        ASSERT_EQ(id, ids[name]) << name;
      }
    }
    ids = now;
    ASSERT_EQ(ledger.servers.entries().size(), servers.size()) << "codes of the gone are released";
  }
}

// A ring by names: unit ids come from codes, which each switch gives out in its own history.
std::vector<std::string> NamesOf(const Plan& plan, const PlannedRing& ring) {
  std::map<uint16_t, std::string> names;
  for (const PlannedUnit& u : plan.units) names[u.id] = UnitName(u.pool, u.server, u.unit);
  std::vector<std::string> named;
  for (const uint16_t id : ring.next) named.push_back(names.at(id));
  return named;
}

TEST(Plan, RingsOfOnePoolFileAreTheSameWhateverTheHistory) {
  std::mt19937_64 random(92);
  for (const auto policy : {SPW_SERVER_MAGLEV, SPW_SERVER_ECMP, SPW_SERVER_WCMP, SPW_SERVER_P2C}) {
    model::Config config = MakeConfig(9);
    config.services[0].server_policy = policy;
    auto& servers = config.pools[0].servers;
    servers[3].units.push_back(servers[3].units[0]);
    servers[3].units.back().name = "cpu2";
    Ledger fresh;
    const auto first = MakePlan(config, fresh, kCapacity);
    ASSERT_TRUE(first) << first.error().message;
    const auto expected = NamesOf(*first, first->rings[0]);

    Ledger used;  // another order of the file, and servers that came and went
    model::Config past = config;
    for (int round = 0; round < 20; round++) {
      std::shuffle(past.pools[0].servers.begin(), past.pools[0].servers.end(), random);
      if (past.pools[0].servers.size() > 4) past.pools[0].servers.pop_back();
      past.pools[0].servers.push_back(MakeServer(fmt::format("n{}", round), 100 + round));
      ASSERT_TRUE(MakePlan(past, used, kCapacity));
    }
    const auto last = MakePlan(config, used, kCapacity);
    ASSERT_TRUE(last) << last.error().message;
    ASSERT_NE(Ids(*last), Ids(*first)) << "the codes should differ";
    EXPECT_EQ(NamesOf(*last, last->rings[0]), expected) << model::ToString(policy);
  }
}

// One unit more or less than a power of two of them, and the other way round.
TEST(Plan, RingsOfOnePoolFileAreTheSameHoweverThePoolGrewOrShrank) {
  for (const int servers : {16, 64, 256}) {
    const model::Config few = MakeConfig(servers);
    model::Config more = few;
    more.pools[0].servers.push_back(MakeServer("more", servers, {"cpu"}));
    const auto laid = [](const std::vector<model::Config>& files) {
      Ledger ledger;
      std::vector<std::string> names;
      for (const model::Config& config : files) {
        const auto plan = MakePlan(config, ledger, kCapacity);
        EXPECT_TRUE(plan) << plan.error().message;
        if (plan) names = NamesOf(*plan, plan->rings[0]);
      }
      return names;
    };
    EXPECT_TRUE(laid({few, more}) == laid({more})) << 2 * servers << " units and one more";
    EXPECT_TRUE(laid({more, few}) == laid({few})) << 2 * servers + 1 << " units and one less";
  }
}

TEST(Plan, RingPiecesNeverOverlap) {
  std::mt19937_64 random(91);
  Ledger ledger;
  model::Config config = MakeConfig(4, 8);
  for (int round = 0; round < 80; round++) {
    auto& services = config.services;
    if (random() % 2 && services.size() > 1) {
      services.erase(services.begin() + static_cast<long>(random() % services.size()));
    } else {
      services.push_back(MakeService(fmt::format("w{}", round), 100 + round));
    }
    config.pools[0].ring_slots = random() % 2 ? 0 : 8209;
    std::map<std::string, uint32_t> before;
    for (const auto& [name, piece] : ledger.rings) before[name] = piece.offset;
    auto plan = MakePlan(config, ledger, 400'000);
    ASSERT_TRUE(plan.has_value()) << plan.error().message;
    std::vector<std::pair<uint32_t, uint32_t>> pieces;
    for (const auto& [name, piece] : ledger.rings) {
      pieces.push_back({piece.offset, piece.offset + piece.slots});
      if (before.contains(name)) {
        ASSERT_EQ(before[name], piece.offset) << "a running ring moved";
      }
    }
    std::sort(pieces.begin(), pieces.end());
    for (size_t i = 1; i < pieces.size(); i++) ASSERT_LE(pieces[i - 1].second, pieces[i].first);
    ASSERT_LE(pieces.back().second, 400'000u);
    ASSERT_EQ(plan->rings.size(), services.size());
    for (const PlannedRing& ring : plan->rings) ASSERT_EQ(ring.next.size(), ring.piece.slots);
  }
}

TEST(Plan, ReorderedUnitsAreRefusedAndTheLedgerIsUntouched) {
  Ledger ledger;
  model::Config config = MakeConfig(2);
  ASSERT_TRUE(MakePlan(config, ledger, kCapacity));
  Ledger before = ledger;
  config.services.push_back(MakeService("new", 9));
  std::swap(config.pools[0].servers[1].units[0], config.pools[0].servers[1].units[1]);
  auto plan = MakePlan(config, ledger, kCapacity);
  ASSERT_FALSE(plan.has_value());
  EXPECT_EQ(plan.error().code, ErrorCode::kBadInput);
  EXPECT_THAT(plan.error().message, HasSubstr("pools.p.servers[s1].units"));
  EXPECT_TRUE(SameLedger(before, ledger));
}

TEST(Plan, AppendedUnitsAreTakenAndARemovedUnitsIndexIsNotGivenAway) {
  Ledger ledger;
  model::Config config = MakeConfig(1);
  auto ids = Ids(*MakePlan(config, ledger, kCapacity));
  config.pools[0].servers[0] = MakeServer("s0", 0, {"cpu", "gpu"});
  auto plan = MakePlan(config, ledger, kCapacity);
  ASSERT_TRUE(plan.has_value());
  EXPECT_EQ(Ids(*plan)["p/s0/cpu"], ids["p/s0/cpu"]);
  EXPECT_NE(Ids(*plan)["p/s0/gpu"], ids["p/s0/nic"]) << "its flows' entries still name the old index";
}

TEST(Plan, TheNinthUnitEverIsRefused) {
  Ledger ledger;
  model::Config config = MakeConfig(1);
  for (int i = 0; i < 6; i++) {
    config.pools[0].servers[0] = MakeServer("s0", 0, {"cpu", fmt::format("u{}", i)});
    ASSERT_TRUE(MakePlan(config, ledger, kCapacity)) << i;
  }
  config.pools[0].servers[0] = MakeServer("s0", 0, {"cpu", "x", "y"});
  Ledger before = ledger;
  EXPECT_FALSE(MakePlan(config, ledger, kCapacity));
  EXPECT_TRUE(SameLedger(before, ledger));
}

TEST(Plan, ExplicitCodesComeBeforeThoseGivenOut) {
  Ledger ledger;
  model::Config config = MakeConfig(4);
  config.pools[0].servers[3].code = 0;
  config.pools[0].servers[2].code = 4095;
  auto plan = MakePlan(config, ledger, kCapacity);
  ASSERT_TRUE(plan.has_value()) << plan.error().message;
  EXPECT_EQ(plan->servers[3].code, 0u);
  EXPECT_EQ(plan->servers[2].code, 4095u);
  std::set<uint32_t> codes;
  for (const PlannedServer& s : plan->servers) EXPECT_TRUE(codes.insert(s.code).second);
}

TEST(Plan, AnExplicitCodeInUseIsRefused) {
  Ledger ledger;
  model::Config config = MakeConfig(2);
  auto plan = MakePlan(config, ledger, kCapacity);
  uint32_t taken = plan->servers[0].code;
  Ledger before = ledger;
  config.pools[0].servers[1].code = taken;
  const auto other = MakePlan(config, ledger, kCapacity);
  ASSERT_FALSE(other);
  EXPECT_THAT(other.error().message, HasSubstr(".code: expected 1, under which the server runs, got 0"));
  config.pools[0].servers[1].code.reset();
  config.pools[0].servers.push_back(MakeServer("s9", 9));
  config.pools[0].servers[2].code = taken;
  const auto held = MakePlan(config, ledger, kCapacity);
  ASSERT_FALSE(held);
  const std::string holder = config.pools[0].servers[0].name;
  EXPECT_THAT(held.error().message,
              HasSubstr("servers[s9].code: expected one that no running server has, got 0, which is "));
  EXPECT_THAT(held.error().message, HasSubstr("/" + holder + "'s"));
  EXPECT_TRUE(SameLedger(before, ledger));
}

TEST(Plan, ACodeIsHandedOnInTwoSteps) {
  Ledger ledger;
  model::Config config = MakeConfig(2);
  config.pools[0].servers[1].code = 7;
  ASSERT_TRUE(MakePlan(config, ledger, kCapacity));
  model::Config renamed = config;
  renamed.pools[0].servers[1].name = "s9";
  EXPECT_FALSE(MakePlan(renamed, ledger, kCapacity)) << "entries of the old one's flows are still there";
  config.pools[0].servers.pop_back();
  ASSERT_TRUE(MakePlan(config, ledger, kCapacity));
  EXPECT_TRUE(MakePlan(renamed, ledger, kCapacity));
}

TEST(Plan, NoRoomForARingIsAnErrorThatNamesTheService) {
  Ledger ledger;
  auto plan = MakePlan(MakeConfig(2, 3), ledger, 2 * SPW_RING_SLOTS);
  ASSERT_FALSE(plan.has_value());
  EXPECT_THAT(plan.error().message, HasSubstr("services[v2]"));
  EXPECT_TRUE(SameLedger(ledger, Ledger{}));
}

TEST(Plan, ARingFitsExactlyWhereOneOfItsSizeWas) {
  Ledger ledger;
  model::Config config = MakeConfig(2, 3);
  const uint32_t capacity = 3 * SPW_RING_SLOTS;
  ASSERT_TRUE(MakePlan(config, ledger, capacity).has_value());
  const uint32_t place = ledger.rings.at("v1").offset;
  config.services.erase(config.services.begin() + 1);
  ASSERT_TRUE(MakePlan(config, ledger, capacity).has_value());
  config.services.push_back(MakeService("new", 9));
  ASSERT_TRUE(MakePlan(config, ledger, capacity).has_value());
  EXPECT_EQ(ledger.rings.at("new").offset, place);
}

TEST(Plan, TheOperatorsWordOverridesTheFileAndGoesWithTheUnit) {
  Ledger ledger;
  model::Config config = MakeConfig(2);
  config.pools[0].servers[0].units[0].drain = true;
  ledger.status["p/s1/cpu"] = SPW_UNIT_DOWN;
  ledger.status["p/s7/cpu"] = SPW_UNIT_DOWN;
  auto plan = MakePlan(config, ledger, kCapacity);
  ASSERT_TRUE(plan.has_value());
  EXPECT_EQ(plan->units[0].status, SPW_UNIT_DRAINING);
  EXPECT_EQ(plan->units[2].status, SPW_UNIT_DOWN);
  EXPECT_FALSE(ledger.status.contains("p/s7/cpu"));
  for (uint16_t id : plan->rings[0].next) {
    ASSERT_TRUE(id == plan->units[1].id || id == plan->units[3].id) << "rings name units that are up";
  }
}

TEST(Plan, NatServicesGetAReplyLineForEachUnitAndDsrNone) {
  Ledger ledger;
  model::Config config = MakeConfig(3, 2);
  config.services[0].ports.push_back({model::Protocol::kUdp, 53});
  config.services[1].mode = SPW_MODE_DSR_L2;
  auto plan = MakePlan(config, ledger, kCapacity);
  size_t ports = 0, fragments = 0;
  for (const spw_endpoint& r : plan->replies) {
    if ((r.proto & SPW_ENDPOINT_FRAGMENTS) != 0) {
      EXPECT_EQ(r.port, 0);
      fragments++;
      continue;
    }
    EXPECT_EQ(r.vip[0], config.services[0].vip.Words()[0]);
    ports++;
  }
  EXPECT_EQ(ports, 3u * 2 * 2);
  EXPECT_EQ(fragments, 3u * 2 * 2) << "one for each unit and protocol";
  EXPECT_EQ(plan->services.size(), 3u + 2) << "three ports and two VIPs";
}

TEST(Plan, DefaultRingsArePrimeAndLargeEnoughForOnePercentOf164Units) {
  EXPECT_GE(SPW_RING_SLOTS, 100 * 164);
  for (uint32_t d = 2; d * d <= SPW_RING_SLOTS; d++) ASSERT_NE(SPW_RING_SLOTS % d, 0u) << d;
}

TEST(Plan, ServicesThatRunKeepTheirRingWhateverTheFileSays) {
  Ledger ledger;
  model::Config config = MakeConfig(2);
  config.pools[0].ring_slots = 4099;
  ASSERT_TRUE(MakePlan(config, ledger, kCapacity));
  config.pools[0].ring_slots = 0;
  config.services.push_back(MakeService("new", 9));
  const auto plan = MakePlan(config, ledger, kCapacity);
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_EQ(plan->rings[0].piece.slots, 4099u);
  EXPECT_EQ(plan->rings[1].piece.slots, uint32_t{SPW_RING_SLOTS});
}

TEST(Plan, RingsAreLaidWithoutEjectedUnitsUntilTheyAreBack) {
  Ledger ledger;
  auto plan = MakePlan(MakeConfig(3), ledger, kCapacity);
  ASSERT_TRUE(plan.has_value());
  const std::vector<uint16_t> before = plan->rings[0].next;
  const uint16_t gone = plan->units[2].id;
  plan->units[2].ejected = true;
  const auto laid = [&] {
    RingLayer layer(*plan);
    return LayRingOf(*plan, layer, plan->config.services[0]).next;
  };
  const std::vector<uint16_t> without = laid();
  EXPECT_EQ(std::count(without.begin(), without.end(), gone), 0);
  for (size_t slot = 0; slot < without.size(); slot++) ASSERT_NE(without[slot], SPW_NO_UNIT);
  plan->units[2].ejected = false;
  EXPECT_EQ(laid(), before);
}

}  // namespace
}  // namespace spillway::switching

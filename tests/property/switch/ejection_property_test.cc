// SPDX-License-Identifier: Apache-2.0
// What holds of every choice of ejected units, on random pools.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "switch/ejection.h"

namespace spillway::switching {
namespace {

class RandomPools {
 public:
  explicit RandomPools(uint64_t seed) : random_(seed) {}

  void Next() {
    config = {};
    units.clear();
    failing.clear();
    unresolved.clear();
    const uint32_t pools = 1 + Below(3), share = 1 + Below(10);
    for (uint32_t p = 0; p < pools; p++) {
      const uint32_t count = 1 + Below(12);
      for (uint32_t u = 0; u < count; u++) {
        PlannedUnit unit;
        unit.pool = fmt::format("p{}", p);
        unit.server = fmt::format("s{}", u / 2);
        unit.unit = fmt::format("u{}", u % 2);
        unit.kind = u % 2 == 0 ? SPW_KIND_CPU : SPW_KIND_GPU;
        unit.id = static_cast<uint16_t>(units.size());
        unit.status = Below(8) != 0 ? SPW_UNIT_UP : Below(2) != 0 ? SPW_UNIT_DRAINING : SPW_UNIT_DOWN;
        if (Below(10) < share)
          failing[UnitName(unit.pool, unit.server, unit.unit)].since += std::chrono::seconds(Below(5));
        if (Below(8) == 0) unresolved.insert(unit.id);
        units.push_back(unit);
      }
      for (uint32_t s = Below(4); s > 0; s--) {
        model::Service service;
        service.name = fmt::format("v{}-{}", p, s);
        service.pool = fmt::format("p{}", p);
        service.unit_policy = Below(2) != 0 ? SPW_UNIT_WRR : SPW_UNIT_HOST_ONLY;
        config.services.push_back(service);
      }
    }
  }
  Ejection Choose() const {
    return ChooseEjected(config, units, failing, [this](uint16_t id) { return !unresolved.contains(id); });
  }
  bool Fails(const PlannedUnit& unit) const {
    return failing.contains(UnitName(unit.pool, unit.server, unit.unit));
  }
  void Shuffle() { std::shuffle(units.begin(), units.end(), random_); }

  model::Config config;
  std::vector<PlannedUnit> units;
  FailingUnits failing;
  std::set<uint16_t> unresolved;

 private:
  uint32_t Below(uint32_t n) { return std::uniform_int_distribution<uint32_t>(0, n - 1)(random_); }
  std::mt19937_64 random_;
};

TEST(EjectionProperty, HoldsOnRandomPools) {
  RandomPools pools(31);
  for (int round = 0; round < 5000; round++) {
    SCOPED_TRACE(round);
    pools.Next();
    Ejection chosen = pools.Choose();
    for (const PlannedUnit& unit : pools.units) {
      if (!chosen.units.contains(unit.id)) continue;
      ASSERT_TRUE(pools.Fails(unit));
      ASSERT_EQ(unit.status, SPW_UNIT_UP);
      ASSERT_FALSE(pools.unresolved.contains(unit.id));
    }
    std::set<uint16_t> may_stay;  // units that some service cannot spare, or that none uses
    for (const PlannedUnit& unit : pools.units) may_stay.insert(unit.id);
    for (const model::Service& service : pools.config.services)
      for (const PlannedUnit& unit : pools.units)
        if (unit.pool == service.pool &&
            (service.unit_policy != SPW_UNIT_HOST_ONLY || unit.kind == SPW_KIND_CPU))
          may_stay.erase(unit.id);
    for (const model::Service& service : pools.config.services) {
      size_t members = 0, out = 0, ejected = 0, working = 0;
      for (const PlannedUnit& unit : pools.units) {
        if (unit.pool != service.pool || unit.status != SPW_UNIT_UP) continue;
        if (service.unit_policy == SPW_UNIT_HOST_ONLY && unit.kind != SPW_KIND_CPU) continue;
        const bool reached = !pools.unresolved.contains(unit.id);
        members++;
        ejected += chosen.units.contains(unit.id);
        out += chosen.units.contains(unit.id) || !reached;
        working += reached && !pools.Fails(unit);
      }
      const ServiceEjection& shown = chosen.services[service.name];
      ASSERT_EQ(shown.ejected, ejected);
      if (ejected > 0) {
        ASSERT_LE(out, members / 2);
        ASSERT_GT(working, 0u) << "fail-open";
      }
      ASSERT_EQ(shown.fail_open, shown.failing > 0 && working == 0);
      const bool full = shown.fail_open || out >= members / 2;
      for (const PlannedUnit& unit : pools.units)
        if (full && unit.pool == service.pool &&
            (service.unit_policy != SPW_UNIT_HOST_ONLY || unit.kind == SPW_KIND_CPU))
          may_stay.insert(unit.id);
    }
    for (const PlannedUnit& unit : pools.units)
      if (pools.Fails(unit) && unit.status == SPW_UNIT_UP && !pools.unresolved.contains(unit.id) &&
          !chosen.units.contains(unit.id)) {
        ASSERT_TRUE(may_stay.contains(unit.id)) << "a unit that could be ejected is not";
      }
    pools.Shuffle();
    ASSERT_EQ(pools.Choose().units, chosen.units) << "the order of units matters";
  }
}

}  // namespace
}  // namespace spillway::switching

// SPDX-License-Identifier: Apache-2.0
#include "health_keeper.h"

#include "mapped_array.h"

namespace spillway::switching {

UnitHealth HealthOf(const spw_server& server, uint32_t unit, uint32_t beat) {
  UnitHealth health;
  const uint8_t flags = server.load[unit].flags;
  const uint32_t out_beat = server.health[unit].out_beat;
  if ((flags & SPW_REPORT_FAILING) == 0 || spw_unit_is_silent(&server, unit, beat) != 0) return health;
  health.failing = true;
  health.reason = (flags & SPW_REPORT_ERRORS) != 0    ? FailingReason::kErrors
                  : (flags & SPW_REPORT_REFUSED) != 0 ? FailingReason::kRefused
                                                      : FailingReason::kUnanswered;
  health.taken_out = (server.failing >> unit & 1) != 0;
  if (health.taken_out)
    health.out_ms = static_cast<double>(spw_beats_since(out_beat, beat)) * (1 << SPW_BEAT_SHIFT) / 1e6;
  return health;
}

void HealthKeeper::Look(const Plan& plan, spw_server* servers, spw_pool* pools, uint32_t beat) {
  struct Count {
    spw_pool pool{};
    uint32_t heard = 0, errors = 0;  // units up
  };
  std::map<uint32_t, Count> counted;
  std::map<uint32_t, uint32_t> pool_of;
  for (const PlannedServer& server : plan.servers) {
    pool_of[server.code] = server.pool;
    counted[server.pool];
  }
  for (const PlannedUnit& unit : plan.units) {
    spw_server& server = servers[spw_unit_server(unit.id)];
    const uint32_t index = spw_unit_index(unit.id);
    const UnitHealth health = HealthOf(server, index, beat);
    if ((server.failing >> index & 1) != 0 && !health.failing)
      __atomic_fetch_and(&server.failing, ~(1u << index), __ATOMIC_RELAXED);
    if (server.unit[index].status != SPW_UNIT_UP) continue;
    Count& count = counted[pool_of[spw_unit_server(unit.id)]];
    count.pool.units++;
    count.pool.out += server.failing >> index & 1;
    count.heard += spw_unit_is_silent(&server, index, beat) == 0;
    count.errors += health.failing && health.reason == FailingReason::kErrors;
  }
  for (const auto& [index, count] : counted) {
    Store(pools[index].units, count.pool.units);
    Store(pools[index].out, count.pool.out);
    const bool common = spw_errors_are_common(count.errors, count.heard) != 0;
    Store(pools[index].excused, __u32{common ? SPW_REPORT_ERRORS : 0u});
  }
}

std::vector<HealthNews> HealthKeeper::TakeNews(const Plan& plan, const spw_server* servers, uint32_t beat) {
  std::vector<HealthNews> news;
  for (const PlannedUnit& unit : plan.units) {
    const UnitHealth now = HealthOf(servers[spw_unit_server(unit.id)], spw_unit_index(unit.id), beat);
    const auto before = told_.find(unit.id);
    const UnitHealth last = before == told_.end() ? UnitHealth{} : before->second;
    if (now.failing != last.failing || now.reason != last.reason || now.taken_out != last.taken_out)
      news.push_back({unit.pool, unit.server, unit.unit, now, last});
    if (now.failing)
      told_[unit.id] = now;
    else if (before != told_.end())
      told_.erase(before);
  }
  return news;
}

}  // namespace spillway::switching

// SPDX-License-Identifier: Apache-2.0
#include "health_keeper.h"

#include <algorithm>

#include "mapped_array.h"

namespace spillway::switching {
namespace {

// Beats wrap after 52 days: one that has been silent for half of that would look as if just heard.
void ForgetLongSilence(spw_unit_load& load, uint32_t beat) {
  const uint32_t heard = Load(load.report_beat);
  if (heard != 0 && spw_report_age(&load, beat) > 1u << 31) Replace(load.report_beat, heard, __u32{0});
}

void BringBack(spw_server& server, uint32_t unit) {
  __atomic_fetch_and(&server.failing, ~(1u << unit), __ATOMIC_RELAXED);
  Written();
}

double Millis(uint32_t beats) { return static_cast<double>(beats) * (1 << SPW_BEAT_SHIFT) / 1e6; }

// For the data plane. The beat comes first: an excuse is worth nothing without it.
void Excuse(spw_server& server, uint32_t unit, bool excused, uint32_t beat) {
  if (excused) {
    Store(server.excused_beat, beat);
    __atomic_fetch_or(&server.excused, 1u << unit, __ATOMIC_RELEASE);
    Written();
  } else if ((Load(server.excused) >> unit & 1) != 0) {
    __atomic_fetch_and(&server.excused, ~(1u << unit), __ATOMIC_RELEASE);
    Written();
  }
}

// Not below 0: a unit that came back while we counted was taken off already, and the data plane would take
// 2^32 - 1 for more than half.
void AddTo(__u32& out, int32_t difference) {
  __u32 before = Load(out), after = 0;
  do {
    after = static_cast<__u32>(std::max(int64_t{0}, int64_t{before} + difference));
  } while (!__atomic_compare_exchange_n(&out, &before, after, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED));
}

struct Count {
  struct Out {
    spw_server* server;
    uint32_t unit;
  };
  uint32_t units = 0, errors = 0, out_before = 0;
  std::vector<Out> out;
};

// CPUs that raced took one too many out: the last ones are brought back.
void KeepToHalf(Count& count, uint32_t beat) {
  std::sort(count.out.begin(), count.out.end(), [&](const Count::Out& a, const Count::Out& b) {
    return spw_beats_since(a.server->health[a.unit].out_beat, beat) >
           spw_beats_since(b.server->health[b.unit].out_beat, beat);
  });
  for (; 2 * count.out.size() > count.units; count.out.pop_back())
    BringBack(*count.out.back().server, count.out.back().unit);
}

}  // namespace

UnitHealth HealthOf(const spw_server& server, uint32_t unit, const spw_pool& pool, uint32_t beat) {
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
    health.failing_ms = health.out_ms = Millis(spw_beats_since(out_beat, beat));
  else if (server.unit[unit].status != SPW_UNIT_UP)
    health.kept = KeptFor::kNoNewFlows;
  else if (spw_unit_is_excused(&server, unit, flags, beat) != 0)
    health.kept = KeptFor::kChecks;
  else
    health.kept = (flags & pool.excused) != 0 ? KeptFor::kCommon : KeptFor::kHalf;
  return health;
}

double HealthKeeper::FailingMs(uint16_t unit, const UnitHealth& health, uint32_t beat) const {
  const auto found = failing_since_.find(unit);
  if (found == failing_since_.end()) return health.out_ms;
  return std::max(health.out_ms, Millis(spw_beats_since(found->second, beat)));
}

// Of a unit that is said to be dead. Each time that the data plane takes it out it notes when, so that a word
// that was taken back in between, however shortly, begins anew. Of a unit that is not out (half of its pool
// is already) that is not known, and it needs no excuse.
bool HealthKeeper::IsExcused(uint16_t unit, const spw_server& server, uint32_t beat) {
  const auto witness = witnessed_.find(unit);
  if (witness == witnessed_.end()) return false;
  const uint32_t index = spw_unit_index(unit);
  const auto before = excused_.find(unit);
  if (before == excused_.end() && (server.failing >> index & 1) == 0) return false;
  const uint32_t said = before != excused_.end() ? before->second : server.health[index].out_beat;
  const auto [since, last, pace] = witness->second;
  const uint32_t fresh = std::max(kFreshPaces * pace, spw_beats(1'000'000'000));
  if (spw_beats_since(last, beat) > fresh) return false;
  const uint32_t last_age = spw_beats_since(last, beat);
  const uint32_t both_age = std::min(spw_beats_since(said, beat), spw_beats_since(since, beat));
  // Whoever reports less often than `silent_beats` is silent: by then a word that was taken back is known.
  if (both_age < last_age + std::max(kWitnessPaces * pace, Load(server.silent_beats))) return false;
  excused_[unit] = said;
  return true;
}

void HealthKeeper::Look(const Plan& plan, spw_server* servers, spw_pool* pools, uint32_t beat) {
  std::map<uint32_t, Count> counts;
  std::map<uint32_t, uint32_t> pool_of;
  for (const PlannedServer& server : plan.servers) {
    pool_of[server.code] = server.pool;
    counts[server.pool].out_before = Load(pools[server.pool].out);
  }
  for (const PlannedUnit& unit : plan.units) {
    spw_server& server = servers[spw_unit_server(unit.id)];
    const uint32_t index = spw_unit_index(unit.id);
    ForgetLongSilence(server.load[index], beat);
    const UnitHealth health = HealthOf(server, index, pools[server.pool], beat);
    const bool is_up = server.unit[index].status == SPW_UNIT_UP;
    if (health.failing)
      failing_since_.try_emplace(unit.id, health.taken_out ? server.health[index].out_beat : beat);
    else
      failing_since_.erase(unit.id);
    const bool excused = health.failing && is_up && health.reason != FailingReason::kErrors &&
                         IsExcused(unit.id, server, beat);
    if (!excused) excused_.erase(unit.id);
    Excuse(server, index, excused, beat);  // before it is back, or the next report would take it out again
    if ((server.failing >> index & 1) != 0 && (excused || !(health.failing && is_up)))
      BringBack(server, index);
    if (!is_up) continue;
    Count& count = counts[pool_of[spw_unit_server(unit.id)]];
    count.units++;
    count.errors += health.failing && health.reason == FailingReason::kErrors;
    if ((server.failing >> index & 1) != 0) count.out.push_back({&server, index});
  }
  for (auto& [index, count] : counts) {
    KeepToHalf(count, beat);
    Store(pools[index].units, count.units);
    // By the difference: what the data plane took out meanwhile is counted, at worst twice until the next
    // look.
    AddTo(pools[index].out, static_cast<int32_t>(count.out.size()) - static_cast<int32_t>(count.out_before));
    Written();
    const bool common = spw_errors_are_common(count.errors, count.units) != 0;
    Store(pools[index].excused, __u32{common ? SPW_REPORT_ERRORS : 0u});
  }
}

std::vector<HealthNews> HealthKeeper::TakeNews(const Plan& plan, const spw_server* servers,
                                               const spw_pool* pools, uint32_t beat) {
  std::vector<HealthNews> news;
  for (const PlannedUnit& unit : plan.units) {
    const spw_server& server = servers[spw_unit_server(unit.id)];
    const UnitHealth now = HealthOf(server, spw_unit_index(unit.id), pools[server.pool], beat);
    const auto before = told_.find(unit.id);
    const UnitHealth last = before == told_.end() ? UnitHealth{} : before->second;
    if (now.failing != last.failing || now.reason != last.reason || now.taken_out != last.taken_out ||
        now.kept != last.kept)
      news.push_back({unit.pool, unit.server, unit.unit, now, last});
    if (now.failing)
      told_[unit.id] = now;
    else if (before != told_.end())
      told_.erase(before);
  }
  return news;
}

}  // namespace spillway::switching

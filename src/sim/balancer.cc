// SPDX-License-Identifier: Apache-2.0
#include "sim/balancer.h"

#include <algorithm>

#include "core/ring.h"
#include "core/ring_build.h"

namespace spillway::sim {
namespace {

// By their number, where spillwayd has one size (SPW_RING_SLOTS): shares are as even, and the figures in
// docs/ are of these rings.
uint32_t RingSlots(size_t units) {
  for (uint32_t prime : {4099u, 16411u, 65537u, 262147u, 1048583u}) {
    if (prime >= 128 * units) return prime;
  }
  return 4194319u;
}

// As spillwayd lays it: a server's weight goes to the units that the unit policy names when nothing is
// known of load.
std::vector<uint16_t> LayRing(const Layout& layout, const PolicyChoice& policy, uint32_t from, uint32_t to) {
  const bool host_only = policy.unit_policy == SPW_UNIT_HOST_ONLY;
  const bool first_only = host_only || policy.unit_policy == SPW_UNIT_P4MITE;
  const bool equal_servers = policy.server_policy == SPW_SERVER_ECMP;
  std::vector<spw_ring_member> members;
  for (uint32_t server = from; server < to; server++) {
    std::vector<const Layout::Unit*> named;
    uint64_t weight = 0, named_weight = 0;
    for (uint32_t u = layout.first_unit[server]; u < layout.first_unit[server + 1]; u++) {
      const Layout::Unit& unit = layout.units[u];
      if (host_only && unit.profile->kind != SPW_KIND_CPU) continue;
      weight += unit.weight;
      if (first_only && !named.empty()) continue;
      named.push_back(&unit);
      named_weight += unit.weight;
    }
    if (equal_servers) weight = 10'000;
    for (const Layout::Unit* unit : named) {
      const uint64_t part = policy.unit_policy == SPW_UNIT_ECMP ? weight * 1000 / named.size()
                                                                : weight * 1000 * unit->weight / named_weight;
      spw_ring_member member{};
      member.unit = spw_unit_id(server - from, unit->index);
      member.weight = static_cast<uint32_t>(std::max<uint64_t>(part, 1));
      member.name = spw_mix64(uint64_t{server} * SPW_UNITS_PER_SERVER + unit->index + 1);
      members.push_back(member);
    }
  }
  std::vector<uint16_t> ring;
  if (members.empty()) return ring;
  ring.resize(RingSlots(members.size()));
  const auto slots = static_cast<uint32_t>(ring.size()), count = static_cast<uint32_t>(members.size());
  if (policy.server_policy == SPW_SERVER_MAGLEV || policy.server_policy == SPW_SERVER_P2C) {
    spw_ring_build_maglev(ring.data(), slots, members.data(), count);
  } else {
    spw_ring_build_split(ring.data(), slots, members.data(), count);
  }
  return ring;
}

}  // namespace

Balancer::Balancer(const Layout& layout, const PolicyChoice& policy, Duration silent_after)
    : layout_(layout), policy_(policy), servers_(layout.servers()) {
  for (const Layout::Unit& unit : layout.units) {
    spw_server& server = servers_[unit.server];
    server.unit[unit.index] = {SPW_UNIT_UP, static_cast<__u8>(unit.profile->kind), unit.weight};
    server.silent_beats = static_cast<__u32>(silent_after.count() >> SPW_BEAT_SHIFT);
  }
  for (uint32_t from = 0; from < layout.servers(); from += SPW_MAX_SERVERS) {
    const uint32_t to = std::min<uint32_t>(from + SPW_MAX_SERVERS, layout.servers());
    pools_.push_back({from, LayRing(layout, policy, from, to)});
  }
}

const Balancer::Pool& Balancer::PoolOf(uint64_t hash) const {
  return pools_.size() == 1 ? pools_[0] : pools_[spw_mix64(hash) % pools_.size()];
}

Balancer::Candidates Balancer::Ask(uint64_t hash) const {
  const Pool& pool = PoolOf(hash);
  if (pool.ring.empty()) return {0, 0, SPW_NO_UNIT, SPW_NO_UNIT};
  const auto slots = static_cast<uint32_t>(pool.ring.size());
  const uint16_t one = pool.ring[spw_ring_index(hash, slots)],
                 two = pool.ring[spw_ring_second_index(hash, slots)];
  return {pool.first_server + spw_unit_server(one), pool.first_server + spw_unit_server(two),
          spw_unit_index(one), spw_unit_index(two)};
}

void Balancer::Announce(uint64_t hash) const {
  const Pool& pool = PoolOf(hash);
  if (pool.ring.empty()) return;
  const auto slots = static_cast<uint32_t>(pool.ring.size());
  __builtin_prefetch(&pool.ring[spw_ring_index(hash, slots)]);
  if (policy_.server_policy == SPW_SERVER_P2C)
    __builtin_prefetch(&pool.ring[spw_ring_second_index(hash, slots)]);
}

int Balancer::Within(uint32_t server, uint32_t default_unit, uint64_t hash, Time now) {
  spw_server& entry = servers_[server];
  const auto policy = static_cast<__u8>(policy_.unit_policy);
  const int unit = spw_choose_unit(&entry, policy, default_unit, hash, Clock(now), entry.draws);
  if (unit < 0) return -1;
  spw_place_on(&entry, policy, static_cast<__u32>(unit), Clock(now));
  return static_cast<int>(layout_.first_unit[server]) + unit;
}

int Balancer::Choose(const Candidates& ask, uint64_t hash, Time now) {
  if (ask.default_unit == SPW_NO_UNIT) return -1;
  const bool second_first = policy_.server_policy == SPW_SERVER_P2C && ask.first != ask.second &&
                            spw_prefer_second(&servers_[ask.first], &servers_[ask.second],
                                              static_cast<__u8>(policy_.unit_policy), Clock(now));
  const int unit = second_first ? Within(ask.second, ask.second_unit, hash, now)
                                : Within(ask.first, ask.default_unit, hash, now);
  if (unit >= 0) return unit;
  return second_first ? Within(ask.first, ask.default_unit, hash, now)
                      : Within(ask.second, ask.second_unit, hash, now);
}

void Balancer::Accept(uint32_t server, uint32_t unit, const spw_report& report, bool reborn, Time now) {
  spw_load_report(&servers_[server], unit, &report, reborn, Clock(now));
}

void Balancer::SetDown(uint32_t server, uint32_t unit, bool down) {
  servers_[server].unit[unit].status = down ? SPW_UNIT_DOWN : SPW_UNIT_UP;
}

}  // namespace spillway::sim

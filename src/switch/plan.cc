// SPDX-License-Identifier: Apache-2.0
#include "plan.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>

#include "core/ring.h"
#include "core/ring_build.h"

namespace spillway::switching {
namespace {

constexpr uint32_t kClosingSeconds = 60;
constexpr uint32_t kWeightMax = 10000;  // a unit of capacity 1/10000 of the pool's largest still counts

uint32_t SecondsToTicks(uint32_t seconds) {
  // Rounded up, and one more, as the last packet may have come late in its tick.
  return static_cast<uint32_t>((uint64_t{seconds} * 1'000'000'000 >> SPW_TICK_SHIFT) + 2);
}

// FNV-1a: a name's stable identity in the ring, the same on every switch of a group.
uint64_t NameHash(const std::string& name) {
  uint64_t h = 0xcbf29ce484222325ULL;
  for (unsigned char c : name) h = (h ^ c) * 0x100000001b3ULL;
  return h;
}

uint32_t IdleSeconds(const model::Service& service, model::Protocol protocol) {
  if (service.idle_s != 0) return service.idle_s;
  return protocol == model::Protocol::kTcp ? model::kTcpIdleSeconds : model::kUdpIdleSeconds;
}

spw_endpoint MakeEndpoint(const model::Address& address, uint16_t port, uint8_t proto, uint8_t kind) {
  spw_endpoint e{};
  auto words = address.Words();
  std::copy(words.begin(), words.end(), e.addr);
  e.port = htons(port);
  e.proto = proto;
  e.family = static_cast<uint8_t>(address.family);
  e.kind = kind;
  return e;
}

// As messages of the pool file's reader name it.
std::string KeyOf(const model::Pool& pool, const model::Server& server) {
  return fmt::format("pools.{}.servers[{}]", pool.name, server.name);
}

// Finds the unit's index: the one it has, or the lowest that no unit of the server ever held.
Result<uint32_t> UnitIndex(Ledger& ledger, const model::Pool& pool, const model::Server& server, size_t at) {
  std::string prefix = ServerName(pool.name, server.name) + "/";
  auto known = ledger.unit_index.find(prefix + server.units[at].name);
  if (known != ledger.unit_index.end()) return known->second;
  uint32_t index = 0;
  for (const auto& [name, used] : ledger.unit_index) {
    if (name.compare(0, prefix.size(), prefix) == 0) index = std::max(index, used + 1);
  }
  if (index >= SPW_UNITS_PER_SERVER) {
    return Fail(
        ErrorCode::kBadInput,
        fmt::format("{}.units: no index is left for {}: units get {} in all while a server runs, removed "
                    "ones included; rename the server to start afresh{}",
                    KeyOf(pool, server), server.units[at].name, SPW_UNITS_PER_SERVER,
                    server.code ? ", with another code" : ""));
  }
  ledger.unit_index[prefix + server.units[at].name] = index;
  return index;
}

Result<uint32_t> ServerCode(Ledger& ledger, const model::Pool& pool, const model::Server& server) {
  std::string name = ServerName(pool.name, server.name);
  std::optional<uint32_t> code = ledger.servers.Find(name);
  if (server.code.has_value()) {
    if (code.has_value() && *code == *server.code) return *code;
    if (code.has_value())
      return Fail(
          ErrorCode::kBadInput,
          fmt::format("{}.code: expected {}, under which the server runs, got {}: keep it, or rename the "
                      "server",
                      KeyOf(pool, server), *code, *server.code));
    if (ledger.servers.Restore(name, *server.code)) return *server.code;
    const auto& taken = ledger.servers.entries();
    const auto holder = std::find_if(taken.begin(), taken.end(),
                                     [&](const auto& entry) { return entry.second == *server.code; });
    return Fail(
        ErrorCode::kBadInput,
        fmt::format("{}.code: expected one that no running server has, got {}{}: give another, or first "
                    "apply the file without this server, which frees the code",
                    KeyOf(pool, server), *server.code,
                    holder == taken.end() ? "" : ", which is " + holder->first + "'s"));
  }
  if (!code.has_value()) code = ledger.servers.Assign(name);
  if (!code.has_value()) {
    return Fail(ErrorCode::kBadInput, fmt::format("pools: more than {} servers", SPW_MAX_SERVERS));
  }
  return *code;
}

Result<void> PlanServer(Plan& plan, Ledger& ledger, uint32_t pool_index, const model::Server& server,
                        double largest) {
  const model::Pool& pool = plan.config.pools[pool_index];
  Result<uint32_t> code = ServerCode(ledger, pool, server);
  if (!code) return tl::make_unexpected(code.error());
  PlannedServer planned{*code, server.key, 0, pool_index};
  int last_index = -1;
  for (size_t i = 0; i < server.units.size(); i++) {
    const model::Unit& unit = server.units[i];
    Result<uint32_t> index = UnitIndex(ledger, pool, server, i);
    if (!index) return tl::make_unexpected(index.error());
    if (static_cast<int>(*index) < last_index) {
      return Fail(
          ErrorCode::kBadInput,
          fmt::format("{}.units: {} was moved up or a unit was put before it; the order of running units is "
                      "fixed: append new units, or rename the server",
                      KeyOf(pool, server), unit.name));
    }
    last_index = static_cast<int>(*index);
    planned.units_mask |= static_cast<uint8_t>(1u << *index % SPW_UNITS_PER_SERVER);

    PlannedUnit u{pool.name,    server.name, unit.name,    spw_unit_id(*code, *index),
                  unit.address, unit.kind,   unit.capacity};
    u.weight = static_cast<uint16_t>(
        std::clamp(std::lround(unit.capacity / largest * kWeightMax), 1L, static_cast<long>(kWeightMax)));
    auto word = ledger.status.find(UnitName(pool.name, server.name, unit.name));
    u.status = word != ledger.status.end() ? word->second : unit.drain ? SPW_UNIT_DRAINING : SPW_UNIT_UP;
    plan.units.push_back(u);
  }
  plan.servers.push_back(planned);
  return {};
}

// First gap that fits, among the pieces in use.
std::optional<uint32_t> FindGap(const Ledger& ledger, uint32_t slots, uint32_t capacity) {
  std::vector<Ledger::RingPiece> pieces;
  for (const auto& [name, piece] : ledger.rings) pieces.push_back(piece);
  std::sort(pieces.begin(), pieces.end(), [](auto& a, auto& b) { return a.offset < b.offset; });
  uint32_t at = 0;
  for (const auto& piece : pieces) {
    if (piece.offset - at >= slots) return at;
    at = piece.offset + piece.slots;
  }
  if (capacity - at >= slots) return at;
  return std::nullopt;
}

Result<void> PlanService(Plan& plan, Ledger& ledger, RingLayer& layer, const model::Service& service,
                         uint32_t ring_capacity) {
  std::optional<uint32_t> code = ledger.services.Assign(service.name);
  if (!code.has_value()) {
    return Fail(ErrorCode::kBadInput, fmt::format("services: more than {}", SPW_MAX_SERVICES));
  }
  const model::Pool& pool = *plan.config.FindPool(service.pool);
  auto ring = ledger.rings.find(service.name);
  if (ring == ledger.rings.end()) {
    uint32_t slots = RingSlots(pool);
    std::optional<uint32_t> offset = FindGap(ledger, slots, ring_capacity);
    if (!offset.has_value()) {
      return Fail(
          ErrorCode::kBadInput,
          fmt::format(
              "services[{}]: no room for a ring of {} slots among {}; to resize the rings, stop spillwayd, "
              "run spillwayd --remove and start it again",
              service.name, slots, ring_capacity));
    }
    ring = ledger.rings.emplace(service.name, Ledger::RingPiece{*offset, slots}).first;
  }
  const std::vector<PlannedUnit>& units = layer.UnitsOf(service.pool);
  PlannedRing planned{service.name, ring->second, layer.Ring(service, ring->second.slots),
                      SecondsToTicks(IdleSeconds(service, model::Protocol::kTcp))};

  for (const model::ServicePort& port : service.ports) {
    uint8_t proto = static_cast<uint8_t>(port.protocol);
    spw_endpoint e = MakeEndpoint(service.vip, port.port, proto, SPW_ENDPOINT_SERVICE);
    e.mode = service.mode;
    e.affinity = service.affinity;
    e.server_policy = service.server_policy;
    e.unit_policy = service.unit_policy;
    e.service = static_cast<uint16_t>(*code);
    e.ring_offset = ring->second.offset;
    e.ring_slots = ring->second.slots;
    e.idle_ticks = static_cast<uint16_t>(SecondsToTicks(IdleSeconds(service, port.protocol)));
    e.closing_ticks = static_cast<uint16_t>(SecondsToTicks(kClosingSeconds));
    plan.services.push_back(e);
    if (service.mode != SPW_MODE_NAT) continue;
    for (const PlannedUnit& unit : units) {
      spw_endpoint r = MakeEndpoint(unit.address, port.port, proto, SPW_ENDPOINT_UNIT);
      auto vip = service.vip.Words();
      std::copy(vip.begin(), vip.end(), r.vip);
      r.service = e.service;
      plan.replies.push_back(r);
    }
  }
  plan.rings.push_back(std::move(planned));
  return {};
}

// Replies in fragments: which addresses' fragments to follow.
void PlanFragments(Plan& plan, RingLayer& layer) {
  std::set<std::pair<model::Address, uint8_t>> known;
  for (const auto& service : plan.config.services) {
    if (service.mode != SPW_MODE_NAT) continue;
    for (const PlannedUnit& unit : layer.UnitsOf(service.pool)) {
      for (const model::ServicePort& port : service.ports) {
        const auto proto = static_cast<uint8_t>(static_cast<uint8_t>(port.protocol) | SPW_ENDPOINT_FRAGMENTS);
        if (known.emplace(unit.address, proto).second)
          plan.replies.push_back(MakeEndpoint(unit.address, 0, proto, SPW_ENDPOINT_UNIT));
      }
    }
  }
}

void PlanAddresses(Plan& plan) {
  std::set<model::Address> vips;
  for (const auto& service : plan.config.services) vips.insert(service.vip);
  for (const auto& vip : vips) plan.services.push_back(MakeEndpoint(vip, 0, 0, SPW_ENDPOINT_VIP));
  const auto& report = plan.config.data_plane.report;
  if (report.has_value()) {
    plan.services.push_back(MakeEndpoint(report->address, report->port, IPPROTO_UDP, SPW_ENDPOINT_REPORT));
    plan.silent_beats =
        static_cast<uint32_t>((uint64_t{report->silent_after_ms} * 1'000'000 >> SPW_BEAT_SHIFT) + 1);
  }
}

void PlanLimits(Plan& plan) {
  uint32_t open = 0, datagram = 0;
  for (const auto& service : plan.config.services) {
    open = std::max(open, IdleSeconds(service, model::Protocol::kTcp));
    datagram = std::max(datagram, IdleSeconds(service, model::Protocol::kUdp));
  }
  auto ticks = [](uint32_t s) { return static_cast<uint16_t>(SecondsToTicks(s)); };
  plan.flow_limits = spw_make_flow_limits(ticks(open), ticks(datagram), ticks(kClosingSeconds));
}

// Releases what the plan no longer names.
void ReleaseGone(const Plan& plan, Ledger& ledger) {
  std::set<std::string> servers, services, units;
  for (const auto& u : plan.units) {
    servers.insert(ServerName(u.pool, u.server));
    units.insert(UnitName(u.pool, u.server, u.unit));
  }
  for (const auto& s : plan.config.services) services.insert(s.name);
  auto release = [](model::CodeBook& book, const std::set<std::string>& named) {
    auto entries = book.entries();
    for (const auto& [name, code] : entries) {
      if (!named.contains(name)) book.Release(name);
    }
  };
  release(ledger.servers, servers);
  release(ledger.services, services);
  std::erase_if(ledger.rings, [&](const auto& item) { return !services.contains(item.first); });
  std::erase_if(ledger.status, [&](const auto& item) { return !units.contains(item.first); });
  // A unit's index stays taken while its server lives, so that an entry of a removed unit never
  // meets its successor.
  std::erase_if(ledger.unit_index, [&](const auto& item) {
    return !servers.contains(item.first.substr(0, item.first.rfind('/')));
  });
}

}  // namespace

spw_unit_status StatusInFile(const model::Config& config, const std::string& pool, const std::string& server,
                             const std::string& unit) {
  for (const model::Server& s : config.FindPool(pool)->servers)
    for (const model::Unit& u : s.units)
      if (s.name == server && u.name == unit) return u.drain ? SPW_UNIT_DRAINING : SPW_UNIT_UP;
  return SPW_UNIT_ABSENT;
}

Ledger BothOf(const Ledger& before, const Ledger& after) {
  Ledger both = after;
  // A code that `after` gave up is given out again by the next plan at the earliest, so each is free here.
  for (const auto& [name, code] : before.services.entries()) (void)both.services.Restore(name, code);
  for (const auto& [name, code] : before.servers.entries()) (void)both.servers.Restore(name, code);
  both.unit_index.insert(before.unit_index.begin(), before.unit_index.end());
  both.rings.insert(before.rings.begin(), before.rings.end());
  return both;
}

uint32_t RingSlots(const model::Pool& pool) {
  return pool.ring_slots != 0 ? pool.ring_slots : SPW_RING_SLOTS;
}

uint64_t RingSlotsNeeded(const model::Config& config) {
  uint64_t slots = 0;
  for (const auto& service : config.services) slots += RingSlots(*config.FindPool(service.pool));
  return slots;
}

const std::vector<PlannedUnit>& RingLayer::UnitsOf(const std::string& pool) {
  const auto [known, fresh] = units_.try_emplace(pool);
  if (fresh)
    std::copy_if(plan_.units.begin(), plan_.units.end(), std::back_inserter(known->second),
                 [&](const PlannedUnit& u) { return u.pool == pool; });
  return known->second;
}

const std::vector<uint16_t>& RingLayer::Ring(const model::Service& service, uint32_t slots) {
  const auto [known, fresh] =
      rings_.try_emplace({service.pool, service.server_policy, service.unit_policy, slots});
  if (fresh) known->second = LayRing(service, UnitsOf(service.pool), slots);
  return known->second;
}

const PlannedRing& LayRingOf(Plan& plan, RingLayer& layer, const model::Service& service) {
  const auto ring = std::find_if(plan.rings.begin(), plan.rings.end(),
                                 [&](const PlannedRing& r) { return r.service == service.name; });
  ring->next = layer.Ring(service, ring->piece.slots);
  return *ring;
}

std::vector<uint16_t> LayRing(const model::Service& service, const std::vector<PlannedUnit>& pool_units,
                              uint32_t slots) {
  // A server's weight is that of its units that are up; within the server it goes to the units that
  // the unit policy names when nothing is known of load.
  struct Share {
    uint32_t weight = 0;
    std::vector<const PlannedUnit*> named;
  };
  // By name: members take turns, and codes are each switch's own history.
  std::map<std::string, Share> servers;
  for (const PlannedUnit& unit : pool_units) {
    if (!unit.InRing()) continue;
    Share& share = servers[unit.server];
    bool host_only = service.unit_policy == SPW_UNIT_HOST_ONLY;
    if (host_only && unit.kind != SPW_KIND_CPU) continue;
    share.weight += unit.weight;
    bool first_only = host_only || service.unit_policy == SPW_UNIT_P4MITE;
    if (!first_only || share.named.empty()) share.named.push_back(&unit);
  }
  std::vector<spw_ring_member> members;
  for (const auto& [name, share] : servers) {
    if (share.named.empty()) continue;
    uint64_t named_weight = 0;
    for (const PlannedUnit* unit : share.named) named_weight += unit->weight;
    for (const PlannedUnit* unit : share.named) {
      bool equal_units = service.unit_policy == SPW_UNIT_ECMP;
      uint64_t server_weight = service.server_policy == SPW_SERVER_ECMP ? kWeightMax : share.weight;
      uint64_t part = equal_units ? server_weight * 1000 / share.named.size()
                                  : server_weight * 1000 * unit->weight / named_weight;
      spw_ring_member member{};
      member.unit = unit->id;
      member.weight = static_cast<uint32_t>(std::max<uint64_t>(part, 1));
      member.name = NameHash(UnitName(unit->pool, unit->server, unit->unit));
      members.push_back(member);
    }
  }
  std::vector<uint16_t> ring;
  if (members.empty()) return ring;
  ring.resize(slots);
  uint32_t n = static_cast<uint32_t>(members.size());
  if (service.server_policy == SPW_SERVER_MAGLEV || service.server_policy == SPW_SERVER_P2C) {
    spw_ring_build_maglev(ring.data(), slots, members.data(), n);
  } else {
    spw_ring_build_split(ring.data(), slots, members.data(), n);
  }
  return ring;
}

Result<Plan> MakePlan(const model::Config& config, Ledger& ledger, uint32_t ring_capacity) {
  Ledger next = ledger;
  Plan plan;
  plan.config = config;
  for (const auto& pool : config.pools) {  // codes written in the file come before codes given out
    for (const auto& server : pool.servers) {
      if (!server.code.has_value()) continue;
      if (Result<uint32_t> code = ServerCode(next, pool, server); !code) {
        return tl::make_unexpected(code.error());
      }
    }
  }
  for (uint32_t index = 0; index < config.pools.size(); index++) {
    const model::Pool& pool = config.pools[index];
    double largest = 0;
    for (const auto& server : pool.servers) {
      for (const auto& unit : server.units) largest = std::max(largest, unit.capacity);
    }
    for (const auto& server : pool.servers) {
      if (Result<void> done = PlanServer(plan, next, index, server, largest); !done) {
        return tl::make_unexpected(done.error());
      }
    }
  }
  RingLayer layer(plan);
  for (const auto& service : config.services) {
    if (Result<void> done = PlanService(plan, next, layer, service, ring_capacity); !done) {
      return tl::make_unexpected(done.error());
    }
  }
  PlanFragments(plan, layer);
  PlanAddresses(plan);
  PlanLimits(plan);
  ReleaseGone(plan, next);
  ledger = std::move(next);
  return plan;
}

}  // namespace spillway::switching

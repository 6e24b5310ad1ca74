// SPDX-License-Identifier: Apache-2.0
#include "server_balancer.h"

#include <fmt/format.h>
#include <netinet/in.h>

#include <algorithm>

#include "core/byte_order.h"
#include "switch/plan.h"

namespace spillway::balancer {
namespace {

constexpr uint32_t kBuckets = 8192;  // 64 Ki flows in 512 KiB

// The service with a pool of this one server, without the front.
Result<model::Config> Reduce(const model::Config& config, const ServerChoice& choice) {
  model::Config own;
  own.data_plane = config.data_plane;
  const auto service = std::find_if(config.services.begin(), config.services.end(),
                                    [&](const model::Service& s) { return s.name == choice.service; });
  if (service == config.services.end())
    return Fail(ErrorCode::kBadInput,
                fmt::format("--service {}: no such service in the pool file", choice.service));
  own.services = {*service};
  if (choice.policy) own.services[0].unit_policy = *choice.policy;
  model::Pool pool = *config.FindPool(service->pool);
  std::erase_if(pool.servers, [&](const model::Server& s) { return s.name != choice.server; });
  if (pool.servers.empty())
    return Fail(ErrorCode::kBadInput,
                fmt::format("--server {}: no such server in pool {}", choice.server, pool.name));
  auto& units = pool.servers[0].units;
  // Agents count units from the first: one that is left out must be the last.
  if (!units.empty() && units.back().address == choice.front) units.pop_back();
  for (const model::Unit& unit : units) {
    if (unit.address == choice.front)
      return Fail(ErrorCode::kBadInput,
                  fmt::format("--front {}: expected the last unit of the server", choice.front.ToString()));
    if (unit.address.family != choice.front.family)
      return Fail(ErrorCode::kBadInput,
                  fmt::format("--front {}: expected an address of the same family (IPv4 or IPv6) as {}, {}",
                              choice.front.ToString(), unit.name, unit.address.ToString()));
  }
  if (units.empty())
    return Fail(ErrorCode::kBadInput,
                fmt::format("--server {}: has no unit besides the front", choice.server));
  own.pools = {std::move(pool)};
  return own;
}

// Ports and addresses as they lie in a packet: the hash is the switch's.
uint64_t HashOf(const RequestPacket& packet, const spw_seed& seed) {
  const uint32_t ports = uint32_t{spw_be16(packet.source_port)} | uint32_t{spw_be16(packet.destination_port)}
                                                                      << 16;
  const auto from = packet.source.Words(), to = packet.destination.Words();
  return packet.family == 4 ? spw_hash_v4(&seed, from[0], to[0], ports, IPPROTO_UDP)
                            : spw_hash_v6(&seed, from.data(), to.data(), ports, IPPROTO_UDP);
}

}  // namespace

ServerBalancer::ServerBalancer(spw_flow_limits limits, uint32_t idle_ticks)
    : flows_(kBuckets, limits, idle_ticks) {}

Result<ServerBalancer> ServerBalancer::Make(const model::Config& config, const ServerChoice& choice,
                                            const Mac& own, const spw_seed& seed) {
  const auto reduced = Reduce(config, choice);
  if (!reduced) return tl::make_unexpected(reduced.error());
  switching::Ledger ledger;
  const auto plan =
      switching::MakePlan(*reduced, ledger, static_cast<uint32_t>(switching::RingSlotsNeeded(*reduced)));
  if (!plan) return tl::make_unexpected(plan.error());
  const model::Service& service = reduced->services[0];
  std::vector<uint16_t> ports;
  uint32_t idle_ticks = 0;
  for (const spw_endpoint& endpoint : plan->services)
    if (endpoint.kind == SPW_ENDPOINT_SERVICE && endpoint.proto == IPPROTO_UDP) {
      ports.push_back(spw_be16(endpoint.port));
      idle_ticks = endpoint.idle_ticks;
    }
  if (ports.empty())
    return Fail(ErrorCode::kBadInput, fmt::format("--service {}: it has no UDP port", choice.service));

  ServerBalancer balancer(plan->flow_limits, idle_ticks);
  balancer.ports_ = std::move(ports);
  balancer.code_ = plan->servers[0].code;
  balancer.state_.silent_beats = plan->silent_beats;
  if (const auto& key = plan->servers[0].key) {
    balancer.key_ = spw_siphash_key_of(key->data());
    balancer.has_key_ = true;
  }
  for (const switching::PlannedUnit& unit : plan->units) {
    balancer.state_.unit[spw_unit_index(unit.id)] = {static_cast<__u8>(unit.status),
                                                     static_cast<__u8>(unit.kind), unit.weight};
    balancer.names_.push_back(unit.unit);
    balancer.addresses_.push_back(unit.address);
  }
  balancer.ring_ = plan->rings[0].next;
  balancer.policy_ = service.unit_policy;
  balancer.affinity_ = service.affinity;
  balancer.front_ = choice.front;
  balancer.own_ = own;
  balancer.seed_ = seed;
  balancer.counters_.placed.resize(balancer.names_.size());
  return balancer;
}

int ServerBalancer::Place(uint64_t hash, uint64_t now_ns) {
  if (ring_.empty()) return -1;
  const uint16_t slot = ring_[spw_ring_index(hash, static_cast<uint32_t>(ring_.size()))];
  const auto policy = static_cast<__u8>(policy_);
  const int unit = spw_choose_unit(&state_, policy, spw_unit_index(slot), hash, now_ns, state_.draws);
  if (unit >= 0) spw_place_on(&state_, policy, static_cast<__u32>(unit), now_ns);
  return unit;
}

int ServerBalancer::PlaceFlow(uint64_t hash, uint64_t now_ns) {
  const uint32_t tick = spw_ticks(now_ns);
  if (const auto known = flows_.Find(hash, tick)) return *known;
  const int unit = Place(hash, now_ns);
  if (unit < 0) return unit;
  counters_.flows_without_room += !flows_.Insert(hash, static_cast<uint16_t>(unit), tick);
  counters_.flows_inserted++;
  return unit;
}

bool ServerBalancer::Handle(std::span<uint8_t> frame, uint64_t now_ns) {
  RequestPacket packet;
  const Parsed parsed = Parse(frame, packet);
  if (parsed != Parsed::kRequest) {
    (parsed == Parsed::kOther      ? counters_.foreign
     : parsed == Parsed::kFragment ? counters_.fragments
                                   : counters_.malformed)++;
    return false;
  }
  if (packet.destination != front_ ||
      std::find(ports_.begin(), ports_.end(), packet.destination_port) == ports_.end()) {
    counters_.foreign++;
    return false;
  }
  const uint64_t hash = HashOf(packet, seed_);
  const int unit = affinity_ == SPW_AFFINITY_NONE
                       ? Place(spw_spread(hash, static_cast<uint32_t>(counters_.requests)), now_ns)
                       : PlaceFlow(hash, now_ns);
  counters_.requests++;
  if (unit < 0) {
    counters_.no_unit++;
    return false;
  }
  counters_.placed[static_cast<size_t>(unit)]++;
  Readdress(frame, packet, addresses_[static_cast<size_t>(unit)], own_);
  return true;
}

spw_report_verdict ServerBalancer::Judge(std::span<const uint8_t> payload, uint64_t now_ns) {
  spw_report_wire wire{};
  const std::span<const uint8_t> head = payload.first(std::min(payload.size(), sizeof wire));
  std::ranges::copy(head, reinterpret_cast<uint8_t*>(&wire));
  spw_report report;
  if (const auto verdict = spw_report_decode(&wire, static_cast<__u32>(payload.size()), &report);
      verdict != SPW_REPORT_OK)
    return verdict;
  if (report.server != code_ || report.unit >= names_.size() || !has_key_) return SPW_REPORT_UNKNOWN_UNIT;
  if (spw_report_tag(&wire, &key_) != wire.tag) return SPW_REPORT_FORGED;
  spw_report_seen& seen = seen_[report.unit];
  if (!spw_report_is_newer(&report, &seen)) return SPW_REPORT_STALE;
  const bool reborn = report.boot_id != seen.boot_id;
  seen.boot_id = report.boot_id;
  seen.sequence = report.sequence;
  spw_load_report(&state_, report.unit, &report, reborn, now_ns);
  return SPW_REPORT_OK;
}

spw_report_verdict ServerBalancer::Accept(std::span<const uint8_t> payload, uint64_t now_ns) {
  const spw_report_verdict verdict = Judge(payload, now_ns);
  (verdict == SPW_REPORT_OK ? counters_.reports_accepted : counters_.reports_refused)++;
  return verdict;
}

}  // namespace spillway::balancer

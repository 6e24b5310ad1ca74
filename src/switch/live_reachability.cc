// SPDX-License-Identifier: Apache-2.0
// Next hops, carried into the data plane: the part of LiveSwitch that asks the kernel for the way to the
// units.
#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "clock.h"
#include "live_switch.h"
#include "mapped_array.h"

namespace spillway::switching {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kResolvePatience = std::chrono::milliseconds(1500);
constexpr uint32_t kConfirmEvery = 15;  // ticks between re-confirmations of a resolved next hop
constexpr uint32_t kVerifyEvery = 4;  // of a unit whose agent fell silent: the kernel asks for three seconds

// `before`: as it was last found; nullptr: not at all.
Hop HopOf(const std::optional<NextHop>& hop, const NextHop* before) {
  if (!hop || !hop->link_up) return Hop::kNone;
  if (hop->mac) return Hop::kKnown;
  const bool is_same = before != nullptr && before->via == hop->via && before->ifindex == hop->ifindex;
  return hop->has_entry || !is_same ? Hop::kUnknown : Hop::kForgotten;
}

}  // namespace

bool LiveSwitch::IsReachable(uint16_t unit) const {
  const auto found = reach_.find(unit);
  return found != reach_.end() && found->second.takes_new_flows();
}

void LiveSwitch::Resolve(const PlannedUnit& unit) {
  Reachability& reach = reach_.try_emplace(unit.id, Clock::now()).first->second;
  const auto found = neighbours_->Find(unit.address);
  if (!found) {  // nothing new is known: all stays until the next tick
    ask_again_.insert(unit.id);
    return;
  }
  ask_again_.erase(unit.id);
  const std::optional<NextHop>& hop = *found;
  spw_unit& entry = plane_->units[unit.id];
  const auto before = hops_.find(unit.id);
  reach.Look(HopOf(hop, before == hops_.end() ? nullptr : &before->second), Clock::now());
  if (!reach.forwards()) {
    Store(entry.resolved, __u8{0});
  } else if (hop->mac && (entry.resolved == 0 || entry.ifindex != hop->ifindex ||
                          std::memcmp(entry.mac, hop->mac->data(), 6) != 0 ||
                          std::memcmp(entry.own_mac, hop->own_mac.data(), 6) != 0)) {
    Store(entry.resolved, __u8{0});
    PutBytes(entry.mac, hop->mac->data(), sizeof(entry.mac));
    PutBytes(entry.own_mac, hop->own_mac.data(), sizeof(entry.own_mac));
    Store(entry.ifindex, __u32{hop->ifindex});
    Store(entry.resolved, __u8{1});
  }
  if (!hop) {
    hops_.erase(unit.id);
    return;
  }
  if (reach.wants_resolving()) neighbours_->Probe(*hop);
  hops_[unit.id] = *hop;
}

void LiveSwitch::StoreConfig(spw_unit_config& field, const spw_unit_config& config) {
  __atomic_store_n(reinterpret_cast<uint32_t*>(&field), std::bit_cast<uint32_t>(config), __ATOMIC_RELEASE);
  Written();
}

void LiveSwitch::WriteStatus(const PlannedUnit& unit) {
  // A unit that cannot be reached gets no new flows; its old ones stay for when it can. Likewise one that is
  // ejected, unless its flows are to move.
  spw_unit_status status = unit.status;
  if (status == SPW_UNIT_UP && (unit.ejected || !IsReachable(unit.id)))
    status = unit.KeepsFlows() ? SPW_UNIT_DRAINING : SPW_UNIT_DOWN;
  spw_unit_config config{};
  config.status = static_cast<__u8>(status);
  config.kind = static_cast<__u8>(unit.kind);
  config.weight = unit.weight;
  StoreConfig(plane_->servers[spw_unit_server(unit.id)].unit[spw_unit_index(unit.id)], config);
}

// At a start the first packets should find every unit; ARP answers take milliseconds.
void LiveSwitch::AwaitNextHops() {
  const auto deadline = Clock::now() + kResolvePatience;
  auto unresolved = [this] {
    return std::any_of(plan_.units.begin(), plan_.units.end(), [this](const PlannedUnit& unit) {
      return hops_.contains(unit.id) && !IsReachable(unit.id);
    });
  };
  while (unresolved()) {
    auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now());
    if (left.count() <= 0) return;
    pollfd waiting{neighbours_->fd(), POLLIN, 0};
    if (poll(&waiting, 1, static_cast<int>(left.count())) <= 0) return;
    OnNetlink();
  }
}

void LiveSwitch::FollowInterfaces() {
  for (std::string& said : plane_->FollowInterfaces(plan_.config.data_plane.attach))
    check_news_.push_back({std::move(said)});
}

void LiveSwitch::OnNetlink() {
  NetworkNews news = neighbours_->Drain();
  if (news.routes_or_links) FollowInterfaces();
  bool any = false;
  for (const PlannedUnit& unit : plan_.units) {
    auto hop = hops_.find(unit.id);
    bool touched = news.routes_or_links || (hop != hops_.end() && news.neighbours.contains(hop->second.via));
    if (!touched) continue;
    Resolve(unit);
    WriteStatus(unit);
    any = true;
  }
  if (any) UpdateEjections();
}

void LiveSwitch::LookAtHops() {
  const uint32_t beat = NowBeat();
  bool touched = false;
  for (PlannedUnit& unit : plan_.units) {
    Reachability& reach = reach_.at(unit.id);
    const spw_server& server = plane_->servers[spw_unit_server(unit.id)];
    const uint32_t index = spw_unit_index(unit.id);
    const bool fell_silent =
        server.load[index].report_beat != 0 && spw_unit_is_silent(&server, index, beat) != 0;
    if (reach.wants_resolving() || ask_again_.contains(unit.id)) {
      Resolve(unit);
      WriteStatus(unit);
      touched = true;
    } else {
      reach.Look(Hop::kKnown, Clock::now());
      // Our traffic does not pass the kernel's neighbour code, so nothing else would confirm it.
      if (fell_silent && (tick_count_ + unit.id) % kVerifyEvery == 0)
        neighbours_->Verify(hops_.at(unit.id));
      else if ((tick_count_ + unit.id) % kConfirmEvery == 0)
        neighbours_->Probe(hops_.at(unit.id));
    }
    if (unit.unreachable == !reach.in_ring()) continue;
    unit.unreachable = !reach.in_ring();
    rings_due_.insert(unit.pool);
    const std::string name = UnitName(unit.pool, unit.server, unit.unit);
    check_news_.push_back(
        unit.unreachable
            ? CheckNews{name + " is unresolved (its next hop is unknown): removed from the rings"}
            : CheckNews{name + " can be reached again: put back into the rings", false});
  }
  if (touched)
    UpdateEjections();
  else
    RelayRings();
}

}  // namespace spillway::switching

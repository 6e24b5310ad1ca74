// SPDX-License-Identifier: Apache-2.0
// Config -> what the maps shall hold. Pure: no kernel, no clock. Everything that can be wrong with a
// configuration is found here, before a byte is written.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "base/error.h"
#include "bpf/switch.h"
#include "model/codes.h"
#include "model/pool.h"

namespace spillway::switching {

inline std::string ServerName(const std::string& pool, const std::string& server) {
  return pool + "/" + server;
}
inline std::string UnitName(const std::string& pool, const std::string& server, const std::string& unit) {
  return pool + "/" + server + "/" + unit;
}

// Names to codes, and each service's piece of the ring_slots map: what must outlive a restart.
struct Ledger {
  model::CodeBook services{SPW_MAX_SERVICES};
  model::CodeBook servers{SPW_MAX_SERVERS};
  std::map<std::string, uint32_t> unit_index;  // UnitName -> index within its server
  struct RingPiece {
    uint32_t offset = 0, slots = 0;
  };
  std::map<std::string, RingPiece> rings;  // by service name
  // Operator's word on units, by UnitName; absent: as the pool file says.
  std::map<std::string, spw_unit_status> status;
  // spw_meta.birth of the maps that it explains; with any others it means nothing.
  uint64_t maps = 0;
};

// `after`, and what only `before` holds: right for maps that are somewhere between the two.
Ledger BothOf(const Ledger& before, const Ledger& after);

struct PlannedUnit {
  std::string pool, server, unit;
  uint16_t id = 0;
  model::Address address;
  spw_unit_kind kind = SPW_KIND_CPU;
  double capacity = 0;
  uint16_t weight = 0;
  spw_unit_status status = SPW_UNIT_UP;  // as the operator or the file says
  // By its health checks: gets no new flows; `move`: its established ones are placed anew. Set after
  // MakePlan, which knows nothing of checks.
  bool ejected = false, move = false;
  bool unreachable = false;  // for so long that the rings do without it; set after MakePlan, likewise

  bool InRing() const { return status == SPW_UNIT_UP && !ejected && !unreachable; }
  bool KeepsFlows() const {
    return status == SPW_UNIT_DRAINING || (status == SPW_UNIT_UP && !(ejected && move));
  }
};

struct PlannedServer {
  uint32_t code = 0;
  std::optional<model::Key> key;
  uint8_t units_mask = 0;
  uint32_t pool = 0;  // its pool's place in the configuration, and in the `pools` map
};

struct PlannedRing {
  std::string service;
  Ledger::RingPiece piece;
  std::vector<uint16_t> next;  // slots -> unit id; SPW_NO_UNIT where no unit may be named
  uint32_t idle_ticks = 0;     // of TCP: after this long without an entry-less packet a slot settles
};

struct Plan {
  model::Config config;
  std::vector<PlannedUnit> units;
  std::vector<PlannedServer> servers;
  std::vector<PlannedRing> rings;
  std::vector<spw_endpoint> services;  // VIP ports, VIPs, the report address
  std::vector<spw_endpoint> replies;
  uint32_t silent_beats = 0;
  spw_flow_limits flow_limits = 0;
};

// What the pool file says of a unit; SPW_UNIT_ABSENT: nothing. The pool exists.
spw_unit_status StatusInFile(const model::Config& config, const std::string& pool, const std::string& server,
                             const std::string& unit);

// Slots of a ring of this pool, for a service that first appears now: as the file says, whatever the number
// of units.
uint32_t RingSlots(const model::Pool& pool);

// Plans `config`; on success `ledger` holds its codes (names that are gone are released). On error
// the ledger is as before. Errors (kBadInput): too many of something, or units of a known server in
// another order, since the order is the units' identity in pinned state.
[[nodiscard]] Result<Plan> MakePlan(const model::Config& config, Ledger& ledger, uint32_t ring_capacity);

// Slots that the rings of `config` need, for sizing the map at the first start.
uint64_t RingSlotsNeeded(const model::Config& config);

// The default unit of every slot under the service's policies, for the units that are up: the ring
// is laid so that the policy's most common answer needs no entry. Empty: no unit is up.
std::vector<uint16_t> LayRing(const model::Service& service, const std::vector<PlannedUnit>& pool_units,
                              uint32_t slots);

// Lays rings of a plan, for its units as they stood at the first ring of each pool: services of one pool
// whose policies are the same have the same ring, which is laid once. The plan outlives it.
class RingLayer {
 public:
  explicit RingLayer(const Plan& plan) : plan_(plan) {}
  const std::vector<PlannedUnit>& UnitsOf(const std::string& pool);
  const std::vector<uint16_t>& Ring(const model::Service& service, uint32_t slots);

 private:
  using Kind = std::tuple<std::string, spw_server_policy, spw_unit_policy, uint32_t>;  // pool; slots
  const Plan& plan_;
  std::map<std::string, std::vector<PlannedUnit>> units_;
  std::map<Kind, std::vector<uint16_t>> rings_;
};

// Lays the ring of `service`, one of the plan's.
const PlannedRing& LayRingOf(Plan& plan, RingLayer& layer, const model::Service& service);

}  // namespace spillway::switching

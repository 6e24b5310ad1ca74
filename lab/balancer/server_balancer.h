// SPDX-License-Identifier: Apache-2.0
// The balancing of one server's UDP requests over its units: what the switch does in the driver, here as an
// object. The decisions are core/'s, the plan (weights, ring, limits) is the switch's own. No sockets, no
// clock; one thread.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "core/hash.h"
#include "core/load.h"
#include "core/policy.h"
#include "flow_memory.h"
#include "request_packet.h"

namespace spillway::balancer {

struct ServerChoice {
  std::string service, server;            // of the pool file
  model::Address front;                   // where requests come in; a unit of this address is not chosen
  std::optional<spw_unit_policy> policy;  // nullopt: the service's
};

struct Counters {
  uint64_t requests = 0;                               // to the front, at one of the service's ports
  std::vector<uint64_t> placed;                        // of them, by unit
  uint64_t no_unit = 0;                                // no unit may take requests
  uint64_t foreign = 0, fragments = 0, malformed = 0;  // not passed on
  uint64_t flows_inserted = 0, flows_without_room = 0;
  uint64_t reports_accepted = 0, reports_refused = 0;  // refused: some after an agent's restart are normal
};

class ServerBalancer {
 public:
  // `own`: the MAC address of the front. Errors (kBadInput): no such service or server in `config`, no
  // unit, no UDP port, or families that differ.
  [[nodiscard]] static Result<ServerBalancer> Make(const model::Config& config, const ServerChoice& choice,
                                                   const Mac& own, const spw_seed& seed);

  // Takes a frame as it came; true: it is now addressed to a unit and is to be sent.
  [[nodiscard]] bool Handle(std::span<uint8_t> frame, uint64_t now_ns);
  // A load report's UDP payload.
  spw_report_verdict Accept(std::span<const uint8_t> payload, uint64_t now_ns);

  const Counters& counters() const { return counters_; }
  const std::vector<std::string>& unit_names() const { return names_; }

 private:
  ServerBalancer(spw_flow_limits limits, uint32_t idle_ticks);
  int Place(uint64_t hash, uint64_t now_ns);
  int PlaceFlow(uint64_t hash, uint64_t now_ns);
  spw_report_verdict Judge(std::span<const uint8_t> payload, uint64_t now_ns);

  spw_server state_{};
  uint32_t code_ = 0;
  spw_siphash_key key_{};
  spw_report_seen seen_[SPW_UNITS_PER_SERVER]{};
  bool has_key_ = false;
  spw_unit_policy policy_ = SPW_UNIT_P4MITE;
  spw_affinity affinity_ = SPW_AFFINITY_CONNECTION;
  std::vector<uint16_t> ring_;
  std::vector<uint16_t> ports_;
  std::vector<std::string> names_;
  std::vector<model::Address> addresses_;
  model::Address front_;
  Mac own_{};
  spw_seed seed_{};
  FlowMemory flows_;
  Counters counters_;
};

}  // namespace spillway::balancer

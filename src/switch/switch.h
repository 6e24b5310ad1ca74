// SPDX-License-Identifier: Apache-2.0
// The data plane from outside: loads and pins it, or adopts what a predecessor left, and carries a
// Config into its maps.
//
//   Start ──► Apply, Tick, OnNetlink, views ... ──► destructor   traffic goes on, maps stay pinned
//                                              └──► Remove       programs detached, pins removed
//
// Threading: not thread-safe; one thread (spillwayd guards it with one mutex).
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "bpf/switch.h"
#include "model/pool.h"

namespace spillway::switching {

struct Options {
  std::string instance = "default";       // names the pin folder and the lock; one per network namespace
  std::string bpffs = "/sys/fs/bpf";      // mounted here if it is not
  std::string run_dir = "/run/spillway";  // lock and saved codes: what lives as long as the pins
  std::string state_dir = "/var/lib/spillway";  // seed, reports heard: what outlives them
};

struct InterfaceView {
  std::string name;
  int ifindex = 0;
  bool native = false;
  std::string why_generic;  // empty when native; where ifindex is 0: why it could not be attached again
};

// What becomes of a failing unit's requests.
enum class FailingReason : uint8_t { kUnanswered, kRefused, kErrors };

// Why a failing unit is not taken out.
enum class KeptFor : uint8_t {
  kHalf,        // no more than half of its pool's units may be out
  kChecks,      // excused: it answers its checks all the while
  kCommon,      // nearly all units of its pool answer errors
  kNoNewFlows,  // it gets none anyway: it is draining, down or ejected
};

// By the word of the unit's agent, while it is fresh (core/health.h).
struct UnitHealth {
  bool failing = false;  // requests come to it and get no good answer
  FailingReason reason = FailingReason::kUnanswered;
  bool taken_out = false;       // gets probes only
  double out_ms = 0;            // for so long
  std::optional<KeptFor> kept;  // failing but not out
  double failing_ms = 0;        // for so long, as spillwayd knows it, which looks once a second
  [[nodiscard]] bool excused() const { return kept == KeptFor::kChecks; }
};

struct HealthNews {
  std::string pool, server, unit;
  UnitHealth now, before;
};

struct UnitView {
  std::string pool, server, unit;
  uint16_t id = 0;  // server code * 8 + index
  spw_unit_kind kind = SPW_KIND_CPU;
  model::Address address;
  double capacity = 0;
  spw_unit_status status = SPW_UNIT_ABSENT;
  bool ejected = false;   // its health checks fail, and it gets no new flows
  bool resolved = false;  // next hop known
  bool silent = true;     // no fresh load report
  bool busy = false;
  uint8_t level = 0;      // 0..255, 128 = at the agent's threshold
  uint16_t queue = 0;     // requests in the unit at the last report
  uint32_t assigned = 0;  // flows placed since
  uint32_t latency_us = 0;
  // What its agent has learnt (core/report.h); 0: not yet.
  uint32_t base_us = 0, slot_ns = 0, knee_us = 0, tail_us = 0;
  std::optional<double> report_age_ms;  // nullopt: never reported
  UnitHealth health;
  uint64_t packets = 0, bytes = 0, new_flows = 0;
  double ring_share = 0;  // mean over the pool's rings of the part of slots that name this unit as next
};

struct ServiceView {
  model::Service service;
  uint32_t ring_slots = 0;
  uint32_t slots_moved = 0;  // not yet settled on their new owner
  uint64_t packets = 0, bytes = 0, new_flows = 0;
  // By health checks: units of the service that fail, and those of them that get no new flows.
  uint32_t failing = 0, ejected = 0;
  bool fail_open = false;    // all fail, so none is ejected
  uint64_t fail_opened = 0;  // times that this began
};

struct FlowTableView {
  uint64_t capacity = 0;  // entries
  uint64_t used = 0;      // as of the last full sweep
  double sweep_age_s = 0;
};

// What an Apply changed, in words for the log and for `spillway apply`.
struct ApplyReport {
  std::vector<std::string> changes;
  std::vector<std::string> notes;  // units on which an operator's word overrides the file
  uint32_t slots_moved = 0, slots_total = 0;
};

// A unit whose health check fails.
struct FailingUnit {
  std::string pool, server, unit;
  std::chrono::steady_clock::time_point since;
  bool move = false;  // once ejected, its established flows are placed anew; else they stay
};

// What has changed for the traffic, in words.
struct CheckNews {
  std::string text;
  bool trouble = true;  // else its end
};

// A unit that answers its health checks: the first and the last of the passes in a row, and how far apart
// they are. Where it has several checks, of the one that has least to say.
struct WitnessedUnit {
  std::string pool, server, unit;
  std::chrono::steady_clock::time_point since, last;
  std::chrono::milliseconds pace{};
};

class Switch {
 public:
  virtual ~Switch() = default;

  // Loads the data plane and attaches it, or adopts the pinned one of `instance`, then applies
  // `config`. On error nothing is left behind that was not there. Errors: kConflict when another
  // spillwayd or another XDP program holds an interface; kUnavailable; kSystem.
  [[nodiscard]] static Result<std::unique_ptr<Switch>> Start(const model::Config& config,
                                                             const Options& options);
  // Detaches and unpins what `instance` left behind, e.g. after kill -9. False: there was nothing.
  [[nodiscard]] static Result<bool> RemoveLeftovers(const Options& options);

  virtual bool adopted() const = 0;
  // What the log should warn of after a start: the switch runs, but not as its host or file suggest.
  virtual std::vector<std::string> StartWarnings() const { return {}; }

  // All or nothing. kBadInput when the running switch cannot take it (flow_table size, interfaces'
  // limits, units reordered). A drained unit of the old config stays drained if still named.
  [[nodiscard]] virtual Result<ApplyReport> Apply(const model::Config& config) = 0;
  // What Apply would say, without applying: errors that need no attempt, and the changes.
  [[nodiscard]] virtual Result<ApplyReport> Check(const model::Config& config) const = 0;
  virtual const model::Config& config() const = 0;

  // Operator's word on one unit: up, draining or down. One that differs from the file's overrides it
  // and is kept across Apply until changed again. Gives the services that take no new flows then, a note
  // each.
  [[nodiscard]] virtual Result<std::vector<std::string>> SetUnitStatus(const std::string& pool,
                                                                       const std::string& server,
                                                                       const std::string& unit,
                                                                       spw_unit_status status) = 0;
  // Forgets the (boot id, sequence) last seen, for an agent whose clock was set back.
  [[nodiscard]] virtual Result<void> ForgetReports(const std::string& pool, const std::string& server,
                                                   const std::string& unit) = 0;

  // All units that health checks find failing, in place of those of the last call. Which of them lose new
  // flows is in ejection.h. It is apart from the operator's word, which holds for the units that it takes
  // out.
  virtual void SetFailing(const std::vector<FailingUnit>& failing) = 0;
  // What health checks have changed for the traffic since the last call, for the log.
  virtual std::vector<CheckNews> TakeCheckNews() = 0;

  // Units whose agents say that they are dead, out or excused; and, in place of those of the last call, which
  // of them answer their checks. What follows is in health_keeper.h.
  virtual std::vector<WitnessedUnit> SaidDead() const { return {}; }  // names alone
  virtual void SetWitnessed(const std::vector<WitnessedUnit>&) {}

  // Housekeeping, to be called about once a second: settles moved slots, sweeps a part of the flow
  // table, probes unresolved neighbours, recounts the units that agents took out.
  virtual void Tick() = 0;
  // Units that began or ceased to fail by their agents' word since it was last asked, for the log.
  virtual std::vector<HealthNews> TakeHealthNews() { return {}; }
  // Readable when neighbours, routes or links changed; then call OnNetlink.
  virtual int netlink_fd() const = 0;
  virtual void OnNetlink() = 0;

  virtual std::vector<InterfaceView> Interfaces() const = 0;
  virtual std::vector<UnitView> Units() const = 0;
  virtual std::vector<ServiceView> Services() const = 0;
  virtual FlowTableView FlowTable() const = 0;
  virtual spw_counters Counters() const = 0;  // summed over CPUs

  // Detaches every program and removes every pin; call once, at a clean exit.
  [[nodiscard]] virtual Result<void> Remove() = 0;
};

}  // namespace spillway::switching

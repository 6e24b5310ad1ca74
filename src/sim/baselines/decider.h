// SPDX-License-Identifier: Apache-2.0
// A policy published elsewhere, as one switch runs it, to compare with those of core/: what it may be told,
// and what it is asked. docs/sim.md has each one's rule and source. Pure: time and messages come in,
// network.h delivers them when they would have arrived. Not thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "sim/baselines/known_load.h"
#include "sim/random.h"
#include "sim/scenario/scenario.h"
#include "sim/station.h"

namespace spillway::sim {

struct DeciderUnit {
  uint32_t server = 0;
  double capacity = 1;
};

// The units that may take requests, and random draws among them.
class UnitSet {
 public:
  // With more units than this, policies that would look at every one of them for each request look at those
  // of two servers.
  static constexpr size_t kMaxSeen = 64;

  explicit UnitSet(std::vector<DeciderUnit> units);

  size_t size() const { return units_.size(); }
  double CapacityOf(uint32_t unit) const { return units_[unit].capacity; }
  double TotalCapacity() const { return total_capacity_; }  // of units that are up
  bool IsUp(uint32_t unit) const { return position_[unit] != kDown; }
  void SetDown(uint32_t unit, bool down);
  const std::vector<uint32_t>& Up() const { return up_; }

  // Needs at least one unit that is up.
  uint32_t Draw(Random& random) const { return up_[random.Bits() % up_.size()]; }
  uint32_t DrawByCapacity(Random& random) const;
  // Distinct ones, at most as many as are up, in random order.
  void DrawDistinct(Random& random, size_t count, std::vector<uint32_t>& drawn) const;
  // All that are up; of more than kMaxSeen units those of two random servers. Valid until the next call.
  std::span<const uint32_t> See(Random& random);

 private:
  static constexpr uint32_t kDown = UINT32_MAX;
  std::vector<DeciderUnit> units_;
  std::vector<uint32_t> first_of_server_;  // and one past the last
  std::vector<uint32_t> up_, position_;    // position in up_
  std::vector<uint32_t> seen_;
  double total_capacity_ = 0, greatest_capacity_ = 0;
};

// An answer to a request of this switch, as it passes the switch.
struct SeenAnswer {
  uint32_t unit = 0;
  Time at = 0;
  Time latency = 0;    // since the request was placed, both wires included
  bool lost = false;   // no answer: given up on; what follows is unknown then
  uint32_t queue = 0;  // in the unit when the answer left
  Time waited = 0;     // for a worker, as the unit says
  Time service = 0;    // with a worker, as the unit says
};

// What a unit says of itself, in a load report or as the answer to a probe.
struct UnitLoad {
  uint32_t unit = 0;
  Time at = 0;                           // when the switch has it
  Time made = 0;                         // when it was true, as far as the switch can know
  uint32_t rif = 0;                      // requests in flight, queued or in service
  Time latency = 0;                      // probes: of recent requests that found about so many; 0: none yet
  const UnitHistory* history = nullptr;  // reports, where messages().histories: the unit's own
};

class Decider {
 public:
  struct Messages {
    bool answers = false, reports = false, idle = false;
    bool histories = false;  // in reports
  };

  Decider(UnitSet units, uint64_t seed, Messages messages)
      : messages_(messages), units_(std::move(units)), random_(seed) {}
  virtual ~Decider() = default;

  // What it must be told.
  const Messages& messages() const { return messages_; }
  void SetDown(uint32_t unit, bool down) { units_.SetDown(unit, down); }

  // The unit for a request, which is placed there; nullopt: none is up.
  std::optional<uint32_t> Choose(Time now) {
    if (units_.Up().empty()) return std::nullopt;
    return Pick(now);
  }
  // Whether the unit just chosen was chosen as idle: the request says so to its unit.
  virtual bool UsedIdle() const { return false; }
  // Units to probe, besides placing the request just chosen for.
  virtual std::span<const uint32_t> Probes() const { return {}; }

  virtual void SeeAnswer(const SeenAnswer&) {}
  virtual void HearReport(const UnitLoad&) {}
  virtual void HearProbe(const UnitLoad&) {}
  virtual void HearIdle(uint32_t /*unit*/, uint32_t /*workers*/) {}

 protected:
  virtual uint32_t Pick(Time now) = 0;  // some unit is up

  const Messages messages_;
  UnitSet units_;
  Random random_;
};

struct DeciderSetup {
  std::vector<DeciderUnit> units;
  uint32_t switches = 1;
  uint64_t seed = 1;
  Time wire = 0;
  Time silent_after = 0;
  BaselineChoice choice;
};

[[nodiscard]] std::unique_ptr<Decider> MakePrequal(const DeciderSetup& setup);
[[nodiscard]] std::unique_ptr<Decider> MakeC3(const DeciderSetup& setup);
[[nodiscard]] std::unique_ptr<Decider> MakePeakEwma(const DeciderSetup& setup);
[[nodiscard]] std::unique_ptr<Decider> MakeLeastRequest(const DeciderSetup& setup);
[[nodiscard]] std::unique_ptr<Decider> MakeJiq(const DeciderSetup& setup);
[[nodiscard]] std::unique_ptr<Decider> MakeScd(const DeciderSetup& setup);
// One of these, by its kind; nullptr: the kind is no baseline.
[[nodiscard]] std::unique_ptr<Decider> MakeDecider(DeciderKind kind, const DeciderSetup& setup);

}  // namespace spillway::sim

// SPDX-License-Identifier: Apache-2.0
// The switches of a run that has a baseline policy, and the messages between them and the units: answers,
// probes, reports and notes of idle workers, each delivered when it would arrive. Not thread-safe; time never
// goes back.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <queue>
#include <vector>

#include "sim/baselines/decider.h"
#include "sim/baselines/known_load.h"
#include "sim/layout.h"
#include "sim/run.h"

namespace spillway::sim {

class BaselineNetwork {
 public:
  // failed(unit, at): whether the unit is down then; it answers no probe and sends no report.
  BaselineNetwork(const RunSetup& setup, const Layout& layout, uint64_t seed,
                  std::function<bool(uint32_t, Time)> failed);

  // The unit for a request at this switch; -1: none is up. Placed, with its fate, must follow. `first`, then
  // `second`: the servers that the ring names, which are asked where the policy chooses within a server.
  int Choose(size_t at_switch, uint32_t first, uint32_t second, Time now);
  // latency: from `now` to the answer in the unit, nullopt: it is never answered; waited: for a worker.
  void Placed(Time now, std::optional<Time> latency, Time waited);
  void SetDown(uint32_t unit, bool down);

  uint64_t reports_sent() const { return reports_sent_; }
  uint64_t reports_lost() const { return reports_lost_; }

 private:
  // In the order of a request's life, so that at equal times it comes before it leaves.
  enum class Kind : uint8_t { kArrives, kEnters, kDone, kSeen, kProbed, kProbeAnswer, kIdle, kTick, kReport };
  struct Event {
    Time at;
    uint64_t order;  // equal times: as they were scheduled
    Kind kind;
    bool lost = false, used_idle = false;
    uint32_t unit = 0, at_switch = 0;
    uint32_t rif = 0;  // found by the request; in the unit when the message left
    uint32_t sequence = 0;
    Time placed = 0, done = 0, waited = 0, service = 0;
    Time latency = 0, made = 0;
    std::shared_ptr<const UnitHistory> history = nullptr;
    bool operator<(const Event& other) const {  // the earliest is the greatest
      return at != other.at ? at > other.at : order > other.order;
    }
  };
  struct Unit {
    UnitHistory history;
    uint32_t group = 0, in_group = 0;  // the decider among whose units it is, and its number there
    Time fixed = 0;                    // from placed to queue
    uint32_t workers = 1;
    uint32_t at_workers = 0;  // waiting or in service
    uint32_t idle_notes = 0;  // idle workers that a switch was told of, and has not used as far as seen here
    uint32_t sequence = 0, heard = 0;  // of reports
    Time reported = 0;
  };

  void Schedule(Event event) {
    event.order = order_++;
    events_.push(event);
  }
  Decider& DeciderOf(size_t at_switch, uint32_t unit) { return *deciders_[at_switch][units_[unit].group]; }
  void CatchUp(Time now);
  void Handle(const Event& event);
  void Arrive(const Event& event);
  void Finish(const Event& event);
  void Tick(const Event& event);
  void Report(uint32_t unit, Time now);

  const Reports& reports_;
  const Time wire_, give_up_after_;
  const std::function<bool(uint32_t, Time)> failed_;
  const bool within_server_;
  // Of each switch: one for all units, or one for each server.
  std::vector<std::vector<std::unique_ptr<Decider>>> deciders_;
  std::vector<Unit> units_;
  std::vector<std::vector<uint32_t>> groups_;  // their units
  Decider::Messages messages_;
  std::priority_queue<Event> events_;
  uint64_t order_ = 0;
  Random random_;
  size_t chosen_at_ = 0;
  uint32_t chosen_ = 0;  // unit of the layout
  uint64_t reports_sent_ = 0, reports_lost_ = 0;
};

}  // namespace spillway::sim

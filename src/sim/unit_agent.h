// SPDX-License-Identifier: Apache-2.0
// A unit's agent in simulated time: watches the station, decides when to report, and sends each report on
// its way. Evaluated late: CatchUp plays everything that happened up to now, in order. Not thread-safe.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>

#include "agent/learner/switch_view.h"
#include "core/report.h"
#include "sim/event_queue.h"
#include "sim/learning.h"
#include "sim/random.h"
#include "sim/scenario/scenario.h"
#include "sim/station.h"

namespace spillway::sim {

// Of a report's delay an agent takes up to so much itself, knows it, and says so (age_us); the rest is the
// network's, which nobody measures. 1.05 ms + 0.05 ms of wire are P4Mite's reports as calibrated.
inline constexpr Time kOwnDelay = 1'050'000;
inline constexpr Time kNextLook =
    20'000'000;  // an agent's default period: when it sees that a unit has drained
inline constexpr Time kHeartbeat = 1'000'000'000;  // where reports follow answers, and none comes

struct AgentSetup {
  const Reports* reports = nullptr;
  agent::Learnt known;     // what reports say of the unit, unless the agent learns it (Reports::learned)
  uint16_t workers = 0;    // the hint of those that learn
  Time fixed = 0;          // part of an unloaded latency that keeps nobody busy
  Time busy_over = 0;      // p4mite's threshold; 0: never busy
  Time second_report = 0;  // > 0: available again so long after each trip
  uint64_t seed = 0;
  uint16_t server = 0;
  uint8_t unit = 0;
};

class UnitAgent {
 public:
  UnitAgent(Station& station, const AgentSetup& setup);

  // deliver(report, at): once for each report that reaches the switch by `now`, in that order.
  template <class Deliver>
  void CatchUp(Time now, Deliver&& deliver) {
    while (Step(now)) continue;
    for (; !under_way_.empty() && under_way_.front().at <= now; under_way_.Pop())
      deliver(under_way_.front().report, under_way_.front().at);
  }
  // Nothing reaches the switch before: CatchUp may wait until then.
  Time Due() const {
    const Time next = std::min({next_tick_, next_check_, pulse_end_}),
               answer = watches_answers_ ? station_.NextAnswer() : kNever;
    const Time sent = std::min(next, answer);
    const Time arrives = sent == kNever ? kNever : sent + setup_.reports->delay.count();
    return under_way_.empty() ? arrives : std::min(arrives, under_way_.front().at);
  }
  uint64_t sent() const { return sent_; }
  uint64_t lost() const { return lost_; }

 private:
  struct UnderWay {
    Time at;
    spw_report report;
  };
  bool Step(Time now);  // the next thing that happens, if it happens by now
  void See(const Station::Sight& sight);
  void Look(Time now);
  void Check(Time now);  // reports if the switch no longer knows the unit
  uint32_t KnownBacklogUs(Time at) const;
  void Send(Time at);

  Station& station_;
  AgentSetup setup_;
  bool watches_answers_;  // an answer may send a report: those by time alone need not be stepped through
  Random random_;
  std::unique_ptr<Learning> learning_;  // apart: far larger than all else, and rarely wanted
  EventQueue<UnderWay> under_way_;
  Time next_tick_ = 0;  // periodic: of the grid; else when a heartbeat is due
  Time pulse_end_ = kNever;
  agent::SwitchView view_;
  Time next_check_ = kNever;
  uint64_t boot_id_ = 1, sent_ = 0, lost_ = 0;
  uint32_t sequence_ = 0;
  Time latency_ = 0;  // smoothed
  Time drained_ = 0;  // without learning: when the unit will have worked off all that has come
  bool busy_ = false, was_down_ = false;
};

}  // namespace spillway::sim

// SPDX-License-Identifier: Apache-2.0
// Units that are out by their agents' word (core/health.h decides; half of a pool at most), seen from
// spillwayd. The data plane takes them out and back as reports come; what no report says is set right here: a
// failing unit that fell silent, was drained or removed no longer counts against its pool's half; errors that
// nearly all units of a pool answer are excused, and so is a unit that answers its checks for long while its
// agent says that it is dead. Works on plain arrays: testable without a kernel. One thread; the data plane
// writes beside it.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "plan.h"
#include "switch.h"

namespace spillway::switching {

// What is known of one unit at `beat`.
UnitHealth HealthOf(const spw_server& server, uint32_t unit, const spw_pool& pool, uint32_t beat);

// A unit said to be dead (unanswered, refused; not errors) is excused once it has passed its checks all
// through so many of their intervals since its agent's word came, which held all the while. An honest agent
// sees the checks, too: it takes back its word when one is answered, or after eight answers at most
// (docs/health.md, `unanswered`), so that its word does not last so long. What it says goes on being told.
constexpr uint32_t kWitnessPaces = 10;
// No word any more from checks whose last pass is older than so many intervals, and than a second.
constexpr uint32_t kFreshPaces = 3;

// WitnessedUnit, in beats.
struct WitnessBeats {
  uint32_t since = 0, last = 0, pace = 0;
};

class HealthKeeper {
 public:
  // What checks say from now on of units that are said to be dead, by id.
  void SetWitnessed(std::map<uint16_t, WitnessBeats> witnessed) { witnessed_ = std::move(witnessed); }
  // For how long the unit, failing by `health`, has failed.
  double FailingMs(uint16_t unit, const UnitHealth& health, uint32_t beat) const;
  // servers, pools: by server code, and by PlannedServer::pool. Recounts the pools.
  void Look(const Plan& plan, spw_server* servers, spw_pool* pools, uint32_t beat);
  // Units whose state is another than when last asked. One that changed and changed back is not reported.
  std::vector<HealthNews> TakeNews(const Plan& plan, const spw_server* servers, const spw_pool* pools,
                                   uint32_t beat);

 private:
  bool IsExcused(uint16_t unit, const spw_server& server, uint32_t beat);

  std::map<uint16_t, WitnessBeats> witnessed_;
  std::map<uint16_t, uint32_t> excused_;        // excused units: since when their agents call them dead
  std::map<uint16_t, uint32_t> failing_since_;  // beat
  std::map<uint16_t, UnitHealth> told_;         // of failing units, by id
};

}  // namespace spillway::switching

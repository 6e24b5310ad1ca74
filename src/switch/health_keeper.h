// SPDX-License-Identifier: Apache-2.0
// Units that are out by their agents' word (core/health.h), seen from spillwayd. The data plane takes them
// out and back as reports come; what no report says is set right here: a failing unit that fell silent, was
// drained or removed no longer counts against its pool's half; errors that nearly all units of a pool answer
// are excused. Works on plain arrays: testable without a kernel. One thread; the data plane writes beside it.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "plan.h"
#include "switch.h"

namespace spillway::switching {

// What is known of one unit at `beat`.
UnitHealth HealthOf(const spw_server& server, uint32_t unit, uint32_t beat);

class HealthKeeper {
 public:
  // servers, pools: by server code, and by PlannedServer::pool. Recounts the pools.
  void Look(const Plan& plan, spw_server* servers, spw_pool* pools, uint32_t beat);
  // Units whose state is another than when last asked. One that changed and changed back is not reported.
  std::vector<HealthNews> TakeNews(const Plan& plan, const spw_server* servers, uint32_t beat);

 private:
  std::map<uint16_t, UnitHealth> told_;  // of failing units, by id
};

}  // namespace spillway::switching

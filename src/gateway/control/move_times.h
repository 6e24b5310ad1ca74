// SPDX-License-Identifier: Apache-2.0
// What moves cost: how long nobody served a model while one of its instances moved. Pure; time comes in.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "scheduler/controller/fleet.h"

namespace spillway::gateway {

class MoveTimes {
 public:
  struct Ended {
    std::string model;
    scheduler::Millis downtime = 0;
  };
  // The fleet as it is now, and whose executors are at the gateway. The moves that have ended since.
  [[nodiscard]] std::vector<Ended> See(const scheduler::Fleet& fleet, const std::set<uint64_t>& here,
                                       scheduler::Millis now);

 private:
  struct Move {
    std::string model;
    scheduler::Millis downtime = 0;
    bool took_over = false;  // the old one drained
  };
  std::map<uint64_t, Move> moves_;  // by the new instance
  scheduler::Millis last_ = 0;
};

}  // namespace spillway::gateway

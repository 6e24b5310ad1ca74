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
  struct Move {
    std::string model, from, to;     // HOST/GPU
    scheduler::Millis downtime = 0;  // of one that has ended
  };
  struct Seen {
    std::vector<Move> begun, ended;
  };
  // The fleet as it is now, and whose executors are at the gateway. The moves that have begun and ended
  // since.
  [[nodiscard]] Seen See(const scheduler::Fleet& fleet, const std::set<uint64_t>& here,
                         scheduler::Millis now);

 private:
  struct Watched {
    Move move;
    bool took_over = false;  // the old one drained
  };
  std::map<uint64_t, Watched> moves_;  // by the new instance
  scheduler::Millis last_ = 0;
};

}  // namespace spillway::gateway

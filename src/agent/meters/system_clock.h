// SPDX-License-Identifier: Apache-2.0
// The clocks of the machine, for the agent's loop and its meters; pure code gets a Time as an argument.
#pragma once

#include <chrono>
#include <ctime>

#include "agent/meters/reading.h"

namespace spillway::agent {

inline Time ReadClock(clockid_t id) {
  timespec now{};
  clock_gettime(id, &now);
  return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
}

}  // namespace spillway::agent

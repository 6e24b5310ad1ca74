// SPDX-License-Identifier: Apache-2.0
// The kernel's clocks as the data plane reads them. Thread-safe.
#pragma once

#include <time.h>

#include <cstdint>

#include "bpf/switch.h"

namespace spillway::switching {

inline uint64_t Now(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

// As the data plane reads them: flows' ages by the coarse clock, reports' by the precise one.
inline uint32_t NowTick() { return spw_ticks(Now(CLOCK_MONOTONIC_COARSE)); }
inline uint32_t NowBeat() { return spw_beats(Now(CLOCK_MONOTONIC)); }

}  // namespace spillway::switching

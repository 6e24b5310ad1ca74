// SPDX-License-Identifier: Apache-2.0
// Sends a flood's packets for real, through a raw socket of the namespace that it is called in.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/error.h"
#include "bench/flood/attack.h"
#include "model/pool.h"

namespace spillway::bench {

// At this pace, or as fast as the machine can. Returns early once `stops`. `sent`: so far, for other threads
// on. What a full queue does not take is not sent again. Errors: kUnavailable, kSystem.
[[nodiscard]] Result<void> SendFlood(Flood flood, uint64_t packets, const model::Address& vip, uint16_t port,
                                     uint32_t packets_per_s, const std::atomic<bool>& stops,
                                     std::atomic<uint64_t>& sent);

}  // namespace spillway::bench

// SPDX-License-Identifier: Apache-2.0
// CLOCK_MONOTONIC in ns, and the kernel's receive stamps brought to it. Thread-safe.
#pragma once

#include <sys/socket.h>

#include <cstdint>

namespace spillway::unit {

[[nodiscard]] std::int64_t MonotonicNs();

// Asks the kernel to stamp what `fd` receives; without it ReceiveTimeNs falls back to the present.
void EnableReceiveStamps(int fd);

// CLOCK_REALTIME minus CLOCK_MONOTONIC at this moment. Read once per batch: the clock may be stepped.
[[nodiscard]] std::int64_t RealtimeOffsetNs();

// When the kernel received `message`, on the monotonic clock, never after `now_ns`; now_ns where it
// carries no stamp.
[[nodiscard]] std::int64_t ReceiveTimeNs(const msghdr& message, std::int64_t offset_ns, std::int64_t now_ns);

// Room for a receive stamp and a packet-info message.
inline constexpr std::size_t kControlBytes = 128;

}  // namespace spillway::unit

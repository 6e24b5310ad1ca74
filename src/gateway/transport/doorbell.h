// SPDX-License-Identifier: Apache-2.0
// What wakes a sleeper of another process that need not be trusted: the two ends of a pair of UNIX datagram
// sockets. A descriptor that two processes share (an eventfd, say) has one set of flags, and whoever clears
// O_NONBLOCK has the other block for ever; here each call says by itself that it does not wait. Datagrams, as
// a stream's end that is closed or shut down would have the other end readable for ever.
#pragma once

#include "base/error.h"
#include "base/fd.h"

namespace spillway::gateway {

struct Doorbell {
  base::Fd sleeper;  // readable once rung; for poll or epoll
  base::Fd ringer;
};

// Errors: kSystem.
[[nodiscard]] Result<Doorbell> MakeDoorbell();

// kBadInput unless a peer's descriptor is an end of such a pair: calls on others may wait whatever is asked.
[[nodiscard]] Result<void> CheckDoorbell(const base::Fd& end);

// Neither waits, whatever a peer did to its end. A bell that was rung some hundred times and not hushed is
// not rung once more: it still rings.
void RingBell(const base::Fd& ringer);
void HushBell(const base::Fd& sleeper);

}  // namespace spillway::gateway

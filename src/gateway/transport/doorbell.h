// SPDX-License-Identifier: Apache-2.0
// How one process wakes another that it need not trust. A gateway must not wait for a peer, whatever that one
// does to what both of them hold: clears a descriptor's O_NONBLOCK, fills what it counts in, sends
// descriptors along whose closing takes days, or receives from the same socket into memory that never comes.
// So
//   - a gateway sleeps on an eventfd, edge-triggered, and never reads or writes it;
//   - it wakes a peer by a datagram of a byte, by a call that says for itself that it does not wait, into a
//   pair
//     of sockets whose other end sends nothing back.
// The peers, who trust their gateway, take what is told them off.
#pragma once

#include "base/error.h"
#include "base/fd.h"

namespace spillway::gateway {

struct Doorbell {
  base::Fd sleeper;  // readable once rung; for poll
  base::Fd ringer;
};

// For a sleeper that hushes it. Errors: kSystem.
[[nodiscard]] Result<Doorbell> MakeDoorbell();

// Of what a peer has sent, kBadInput unless it is: what a gateway may ring, an end of a pair of UNIX datagram
// sockets; what it may sleep on, an eventfd.
[[nodiscard]] Result<void> CheckRinger(const base::Fd& end);
[[nodiscard]] Result<void> CheckEventFd(const base::Fd& bell);

// An end of a pair, or a gateway's eventfd. A bell that nobody hushed for long is not rung once more: it
// still rings.
void RingBell(const base::Fd& ringer);
// Of a pair.
void HushBell(const base::Fd& sleeper);

}  // namespace spillway::gateway

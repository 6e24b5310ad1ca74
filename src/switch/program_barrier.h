// SPDX-License-Identifier: Apache-2.0
// BPF programs that may be running still: waiting for them, and taking one off an interface that packets come
// in on.
#pragma once

#include "base/error.h"
#include "base/fd.h"

namespace spillway::switching {

// Waits until no BPF program runs any more that was running when the wait began, on any CPU.
class ProgramBarrier {
 public:
  // Errors: kSystem, where the kernel gives no map (no CAP_BPF, no memory).
  [[nodiscard]] static Result<ProgramBarrier> Make();

  // Programs that start after the call see all that was written to maps before it. Takes milliseconds.
  [[nodiscard]] Result<void> Await();

 private:
  ProgramBarrier() = default;
  base::Fd map_, value_;
};

// Detaches the XDP link `link_fd`, which stays open. The kernel may free what a program reads of its
// interface (xdp_rxq_info, by ctx->ingress_ifindex) while the program runs: a veth end with GRO goes on
// polling its ring while its program is taken away, and a program that is in a packet then reads at address 0
// and brings the kernel down (veth_disable_xdp of drivers/net/veth.c, Linux 6.1 and later). So a program that
// reads nothing takes its place first, and the link goes when no packet is in the old one any more.
void DetachLink(int link_fd);

// As DetachLink, for the link pinned at `pin`; nothing if there is none. The pin stays.
void DetachPinnedLink(const char* pin);

}  // namespace spillway::switching

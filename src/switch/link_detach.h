// SPDX-License-Identifier: Apache-2.0
// Taking an XDP program off an interface that packets still come in on.
#pragma once

namespace spillway::switching {

// Detaches the XDP link `link_fd`, which stays open. The kernel may free what a program reads of its
// interface (xdp_rxq_info, by ctx->ingress_ifindex) while the program runs: a veth end with GRO goes on
// polling its ring while its program is taken away, and a program that is in a packet then reads at address 0
// and brings the kernel down (veth_disable_xdp of drivers/net/veth.c, Linux 6.1 and later). So a program that
// reads nothing takes its place first, and the link goes when no packet is in the old one any more.
void DetachLink(int link_fd);

// As DetachLink, for the link pinned at `pin`; nothing if there is none. The pin stays.
void DetachPinnedLink(const char* pin);

}  // namespace spillway::switching

// SPDX-License-Identifier: Apache-2.0
// The engines event_sw, event_dsw and event_dlb2: DPDK event devices behind the same API. DPDK is started on
// first use, without huge pages, PCI devices or root ("--no-huge --no-pci -m 512"); the environment's
// SPILLWAY_EAL replaces these words, for a machine with a DLB. What devices cannot do:
//   - queues and ports are taken until the first event; none joins later;
//   - a flow is 20 bits for the device: others are folded, and come out folded;
//   - event_dsw knows no ordered queues and no priorities;
//   - event_sw has a scheduler: whoever dequeues runs it, one at a time.
#pragma once

#include <memory>
#include <string_view>

#include "dispatch/domain.h"

namespace spillway::dispatch {

// Errors: kUnavailable when DPDK does not start or has no such device, kBadInput for an unknown name.
[[nodiscard]] Result<std::unique_ptr<Domain>> OpenEventdev(std::string_view engine,
                                                           const DomainOptions& options);

// Starts DPDK if nobody has; for others that use it, rte_ring for one.
[[nodiscard]] Result<void> StartDpdk();

}  // namespace spillway::dispatch

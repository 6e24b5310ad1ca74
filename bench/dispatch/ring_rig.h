// SPDX-License-Identifier: Apache-2.0
// DPDK's rings, bare: what no dispatcher on top of rings can beat.
#pragma once

#include <memory>
#include <string>

#include "bench/dispatch/crowd.h"

namespace spillway::bench {

// kind: spsc, mpmc, distributor. Errors: kUnavailable without DPDK.
[[nodiscard]] Result<std::unique_ptr<Rig>> MakeRingRig(const std::string& kind);
// mpmc.
[[nodiscard]] Result<Crowd> MakeRingCrowd(size_t producers, size_t workers);

}  // namespace spillway::bench

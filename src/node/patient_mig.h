// SPDX-License-Identifier: Apache-2.0
// MIG of a driver that may hang: each call is made on a thread of its own, and given up after a while. What a
// call that was given up goes on to make, it takes back itself, or it is of the kind that Mig::Find finds.
// One thread, but for those threads.
#pragma once

#include <chrono>
#include <memory>

#include "node/mig.h"

namespace spillway::node {

// For each question: longer than a driver takes to make an instance, and less than the controller's
// silent_after, 5 s as shipped, as the node agent says nothing meanwhile.
inline constexpr std::chrono::milliseconds kMigPatience = std::chrono::seconds(4);

// Errors are `mig`'s, and kUnavailable where the driver has not answered within `patience`; then also of
// every further call about that GPU, until it has.
[[nodiscard]] std::unique_ptr<Mig> MakePatientMig(std::unique_ptr<Mig> mig,
                                                  std::chrono::milliseconds patience = kMigPatience);

}  // namespace spillway::node

// SPDX-License-Identifier: Apache-2.0
// The processor's light sleep (umonitor, umwait), where CPUID says waitpkg: wakes when a cache line is
// written, or after some microseconds.
#pragma once

#include <functional>

namespace spillway::dispatch {

[[nodiscard]] bool HaveLightSleep();

// Watches the cache line at `line`; `ready` is asked once the watch is on, and true means no sleep. Returns
// after at most about 100,000 cycles.
void LightSleep(const void* line, const std::function<bool()>& ready);

}  // namespace spillway::dispatch

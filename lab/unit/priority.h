// SPDX-License-Identifier: Apache-2.0
// Real-time priority for programs whose wake-ups are what is measured.
#pragma once

namespace spillway::unit {

// Asks for SCHED_FIFO at a low real-time priority (needs CAP_SYS_NICE), so that ordinary processes do
// not delay the caller's thread; children do not inherit it. False: not allowed, nothing changed. Good
// where the thread mostly sleeps; one that fills a CPU starves its neighbours on it.
bool TakeRealtimePriority();

}  // namespace spillway::unit

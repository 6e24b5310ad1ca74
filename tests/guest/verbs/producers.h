// SPDX-License-Identifier: Apache-2.0
// The producers of verbs_guest_test: this program again, as another process, that connects and does well or
// does harm.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace spillway::dispatch {

// stream COUNT BURST FLOW   events numbered in `user`
// measure COUNT BURST FLOW  the same, and says how fast
// paced COUNT               one event at a time, with the time in `user`
// die COUNT                 kills itself after so many have arrived and more are on their way
// rubbish COUNT             a bad event after so many
// unpaid                    fills its ring three times, whatever is granted
// reach                     writes where it must not
// waits                     until the host has gone
// connect                   no more than that
// Those that expect to be cut off exit with 0 when they were told why.
int Produce(const std::string& address, uint16_t port, const std::vector<std::string>& job);

// CLOCK_MONOTONIC, the same in both processes.
uint64_t Nanoseconds();
double CpuSeconds();  // of this process

}  // namespace spillway::dispatch

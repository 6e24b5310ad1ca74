// SPDX-License-Identifier: Apache-2.0
// How far jobs, and requests, of different tenants are kept apart. Plain value.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace spillway::scheduler {

// Of jobs, which stay, and of requests, which take a slice that is there:
//   none      all tenants share a GPU's compute and memory; and its slices
//   fraction  every job has a slice of the GPU to itself, as MIG divides it; a slice has requests of one
//   tenant
//             at a time
//   gpu       jobs share a GPU's compute and memory with those of the same tenant only; a GPU has requests of
//             one tenant at a time
enum class Isolation : uint8_t { kNone, kFraction, kGpu };
[[nodiscard]] std::optional<Isolation> IsolationByName(std::string_view name);
[[nodiscard]] const char* ToString(Isolation isolation);

}  // namespace spillway::scheduler

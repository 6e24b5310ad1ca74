// SPDX-License-Identifier: Apache-2.0
// A checksum of what was computed (FNV-1a, 32 bits). Pure.
#pragma once

#include <cstdint>
#include <span>

namespace spillway::compute {

template <class T>
std::uint32_t Checksum(std::span<const T> values, std::uint32_t from = 0x811c9dc5) {
  for (std::byte byte : std::as_bytes(values))
    from = (from ^ std::to_integer<std::uint32_t>(byte)) * 0x01000193;
  return from;
}

}  // namespace spillway::compute
